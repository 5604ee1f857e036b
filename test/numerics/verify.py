"""llmc verify says that plans equal their models, and tells what it refuses.

--full verifies 50 drawn models in place of 10, from the same seed.
"""
import json
import os
import re
import shutil
import struct

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
    wanted = {"static", "fp64", "kernels"} | (set() if str(arguments[0]).endswith(".mlir") else {"states"}) | ({"updates"} if "--infer" not in arguments else set())
    require(wanted <= names, f"only {names}")
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


def architecture(folder, model, mesh):
    return verify(os.path.join(DATA, model, "config.json"), "--mesh", mesh)[1]


def onnx(folder):
    return verify(os.path.join(DATA, "gpt2", "torchscript.onnx"), "--mesh", "2x1x2", "--seq", 16,
                  "--global-batch", 4)[1]


def borders(folder):
    for phase in ["raise", "train", "shard", "partition", "schedule"]:
        done = call([LLMC, "verify", os.path.join(DATA, "gpt2", "config.json"), "--mesh", "2x2x2",
                     "--seq", 8, "--global-batch", 8, "--after", phase, "--json"])
        for check in json.loads(done.stdout)["checks"]:
            own = (f"fp64:{phase}:", "fp64:update:") if phase == "train" else f"fp64:{phase}:"
            require(check["name"].startswith(own), check["name"])


# A model with --infer: a config, exported files with and without past tokens, an encoder,
# IR with inputs and outputs of every stage and kind.
def models_of(name, *dims):
    return [os.path.join(DATA, "models", name, "model.onnx"),
            *(flag for dim in dims for flag in ("--dim", dim))]


INFERENCES = {
    "config": [os.path.join(DATA, "gpt2", "config.json"), "--dim", "batch=4,sequence=12"],
    "past": models_of("llama/optimum-18-past", "batch_size=4", "sequence_length=3", "past_sequence_length=5"),
    "prefill": models_of("gpt2/optimum-18-past", "batch_size=2", "sequence_length=6", "past_sequence_length=0"),
    "encoder": models_of("bert/dynamo-18-mask-types", "batch=2", "sequence=7"),
    "IR": [os.path.join(DATA, "decoder.mlir")],
}


def infers(folder, name, mesh, *flags):
    report, note = verify(*INFERENCES[name], "--infer", "--mesh", mesh, *flags)
    outputs = {c["name"] for c in report["checks"] if c["name"].endswith(":outputs")}
    require(outputs == {"fp64:raise:outputs", "fp64:partition:outputs", "kernels:outputs"}, f"compared are {outputs}")
    return note


def infer_borders(folder, name):
    for phase in ["raise", "shard", "partition", "schedule"]:
        done = call([LLMC, "verify", *INFERENCES[name], "--infer", "--mesh", "2x2x2", "--after", phase, "--json"])
        checks = json.loads(done.stdout)["checks"]
        require(any(c["name"].endswith(":outputs") for c in checks), f"{phase}: no outputs")
        for check in checks:
            own = (f"fp64:{phase}:", "fp64:update:") if phase == "train" else f"fp64:{phase}:"
            require(check["name"].startswith(own), check["name"])
    done = call([LLMC, "verify", *INFERENCES[name], "--infer", "--after", "train"], check=False)
    require(done.returncode == 1 and "no phase boundary train" in done.stderr, f"exit {done.returncode}: {done.stderr}")


def infer_dumps(folder):
    """Dumps of an inference are verified as such; a fault in one is placed at its border."""
    path = os.path.join(folder, "dump.mlir")
    for phase in ["raise", "shard", "partition", "schedule"]:
        call([LLMC, "compile", *INFERENCES["past"], "--infer", "--mesh", "2x2x2", "--compile-to", phase, "-o", path])
        verify(path, "--infer")
        with open(path) as f:
            text = f.read()
        broken = re.sub(r"eps = [-+.\deE]+", "eps = 1.0e-01", text)
        require(broken != text, "there is nothing to change")
        with open(path, "w") as f:
            f.write(broken)
        done = call([LLMC, "verify", path, "--json"], check=False)
        require(done.returncode == 3 and json.loads(done.stdout)["border"] == phase, f"{phase}: {done.stdout}")


def real_sizes(folder):
    """The kernels of GPT-2 124M run at its own sizes, though a shrunk twin stands in for the steps."""
    sizes = {"n_layer": 12, "n_embd": 768, "n_head": 12, "n_positions": 1024, "vocab_size": 50257}
    report, note = verify(config(folder, **sizes), "--mesh", "2x2x2", "--seq", 1024)
    require(report["twin"], "no twin stands in for 124M parameters")
    names = {c["name"] for c in report["checks"]}
    wanted = {"kernels:shapes", *(f"ranges:{regime}" for regime in ["large", "tiny", "equal", "masked", "outliers"])}
    require(wanted <= names, f"{wanted - names} are missing")
    return note


def draws(folder, count, *flags):
    """A fault that makes the compiler refuse most draws is no success."""
    report, note = verify("--draws", count, "--seed", SEED, *flags)
    require(2 * report["refused"] <= count, f"{report['refused']} of {count} refused")
    return f"{note}, {report['refused']} refused"


def refused(folder):
    done = call([LLMC, "verify", os.path.join(DATA, "gpt2", "config.json"), "--mesh", "1x1x3"], check=False)
    require(done.returncode == 1 and "tp" in done.stderr, f"exit {done.returncode}: {done.stderr}")


def not_a_number(folder):
    """Spoils one element of a model's weights, which the error names by its place."""
    shutil.copytree(os.path.join(DATA, "llama"), folder, dirs_exist_ok=True)
    path = os.path.join(folder, "weights.safetensors")
    with open(path, "r+b") as file:
        length = struct.unpack("<Q", file.read(8))[0]
        tensors = json.loads(file.read(length))
        file.seek(8 + length + tensors["model.norm.weight"]["data_offsets"][0] + 3 * 4)
        file.write(struct.pack("<f", float("nan")))
    done = call([LLMC, "verify", os.path.join(folder, "config.json"), "--mesh", "2"], check=False)
    require(done.returncode == 1, f"exit {done.returncode}: {done.stdout[-2000:]}")
    for word in ("config.json", "'model.norm.weight' has 1 of", "NaN", "at place 3"):
        require(word in done.stderr, f"does not say {word}: {done.stderr}")


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
# One or two key heads for four tensor ranks, norms of heads, branches that are added, softcaps and windows.
for model, mesh in [("llama", "1x1x4"), ("qwen3", "2x1x4"), ("phi", "1x2x4"), ("gemma2", "1x1x4")]:
    suite.run(f"{model} on {mesh}", architecture, model, mesh)
suite.run("an ONNX file", onnx)
suite.run("kernels at the sizes of GPT-2 124M", real_sizes)
suite.run("each border alone", borders)
for name, mesh, *flags in [("config", "1"), ("config", "2"), ("config", "1x2x1"), ("config", "1x1x2"),
                           ("config", "2x2x2", "--interleavings", 4), ("config", "4x1x2", "--raise", "off"),
                           ("past", "4x2x2", "--interleavings", 4), ("past", "2x1x2", "--raise", "off"),
                           ("prefill", "2x2x2"), ("encoder", "2x2x2"), ("encoder", "1x1x4"),
                           ("IR", "1"), ("IR", "2x3x2"), ("IR", "4x1x1"), ("IR", "1x4x2", "--interleavings", 4)]:
    suite.run(f"inference: {name} on {mesh} {' '.join(map(str, flags))}", infers, name, mesh, *flags)
for name in ["config", "past", "IR"]:
    suite.run(f"inference: {name}, each border alone", infer_borders, name)
suite.run("inference: dumps", infer_dumps)
suite.run("drawn models", draws, 50 if suite.full else 10)
suite.run("inference: drawn models", draws, 200 if suite.full else 20, "--infer")
suite.run("a refusal is a reason", refused)
suite.run("a weight that is not a number", not_a_number)
suite.finish()
