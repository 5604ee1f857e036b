"""llmc verify says that plans equal their models, and tells what it refuses.

--full verifies 50 drawn models in place of 10, from the same seed.
"""
import json
import os

from harness import DATA, LLMC, Failure, Suite, call, require

SEED = 4


def config(folder, **changes):
    with open(os.path.join(DATA, "gpt2", "config.json")) as f:
        content = json.load(f)
    content.update(changes)
    path = os.path.join(folder, "config.json")
    with open(path, "w") as f:
        json.dump(content, f)
    return path


def verify(*arguments):
    done = call([LLMC, "verify", *arguments, "--json"], check=False)
    if done.returncode not in (0, 3):
        raise Failure(f"exit {done.returncode}: {done.stderr[-2000:]}")
    report = json.loads(done.stdout)
    failed = [c for c in report["checks"] if not c["passed"]]
    require(report["passed"] == (not failed) == (done.returncode == 0), "verdict, checks and exit code differ")
    require(not failed, "\n".join(f"{c['name']} {c['value']:.3e} > {c['limit']:.1e} {c['subject']}" for c in failed))
    names = {c["name"].split(":")[0] for c in report["checks"]}
    require({"static", "fp64", "kernels", "updates"} <= names, f"only {names}")
    worst = max(c["value"] for c in report["checks"] if c["name"].startswith("fp64:"))
    return report, f"{len(report['checks'])} checks, largest fp64 error {worst:.1e}"


def equal(folder, mesh, changes, flags):
    model = config(folder, **changes) if changes else os.path.join(DATA, "gpt2", "config.json")
    report, note = verify(model, "--mesh", mesh, "--seq", 16, *flags)
    ranks = 1
    for size in mesh.split("x"):
        ranks *= int(size)
    require(report["ranks"] == ranks, f"{report['ranks']} ranks")
    return note


def onnx(folder):
    return verify(os.path.join(DATA, "gpt2", "torchscript.onnx"), "--mesh", "2x1x2", "--seq", 16,
                  "--global-batch", 4)[1]


def borders(folder):
    for phase in ["raise", "train", "shard", "partition", "schedule"]:
        done = call([LLMC, "verify", os.path.join(DATA, "gpt2", "config.json"), "--mesh", "2x2x2",
                     "--seq", 8, "--global-batch", 8, "--after", phase, "--json"])
        for check in json.loads(done.stdout)["checks"]:
            require(check["name"].startswith(f"fp64:{phase}:"), check["name"])


def draws(folder, count):
    return verify("--draws", count, "--seed", SEED)[1]


def refused(folder):
    done = call([LLMC, "verify", os.path.join(DATA, "gpt2", "config.json"), "--mesh", "1x1x3"], check=False)
    require(done.returncode == 1 and "tp" in done.stderr, f"exit {done.returncode}: {done.stderr}")


SMALL = {"n_layer": 2, "n_embd": 32, "n_head": 4, "n_positions": 16}
suite = Suite("verify")
for mesh, changes, flags in [("8", {}, ["--global-batch", 8]),
                             ("1x4x1", {}, ["--global-batch", 6]),
                             ("1x1x4", {}, []),
                             ("2x2x2", {}, ["--global-batch", 8]),
                             ("4x2", {"vocab_size": 50257, "n_layer": 1, "n_embd": 8, "n_head": 2,
                                      "n_positions": 16}, ["--global-batch", 4]),
                             ("1x3x1", {"n_layer": 7, "n_embd": 32, "n_head": 4}, ["--global-batch", 6]),
                             ("2x3x2", {**SMALL, "n_layer": 3}, ["--global-batch", 24]),
                             ("2x3x2", {**SMALL, "n_layer": 3}, ["--global-batch", 24, "--schedule", "gpipe"])]:
    suite.run(f"mesh {mesh} {changes or ''} {' '.join(map(str, flags))}", equal, mesh, changes, flags)
suite.run("an ONNX file", onnx)
suite.run("each border alone", borders)
suite.run("drawn models", draws, 50 if suite.full else 10)
suite.run("a refusal is a reason", refused)
suite.finish()
