"""Every small fault of the IR that raise, train, shard or partition leaves is found by the
default `verify`, shown to change nothing, or changes no loss and no gradient by 1e-3.

Two architectures on two meshes; of a training in bf16 or fp16 that skips steps, the faults of
types, of the selects and of the flag on which ranks agree; of mixtures those of their routes
(another expert, rows miscounted, the weight of another choice, others left out), and, with `--full`, all.
An ordinary run takes a fixed sample of the faults, `--full` all of them.
"""
import json
import os

from harness import LLMC, Suite, call, require
from small import write_small

MUTANTS = os.path.join(os.path.dirname(LLMC), "llmc-ir-mutants")
MODELS = [("gpt2", "2x1x2"), ("llama", "1x2x2")]
LOW = [("gpt2", "2x1x2", "bf16", "--family", "types"), ("llama", "1x2x2", "fp16", "--family", "types"),
       ("llama", "2x1x2", "bf16", "--family", "dropped", "--only", "graph.select"),
       ("gpt2", "1x2x2", "fp16", "--only", "all_reduce#5", "--whole-sequence")]
# Shared out over 2 and 4 ranks, with limits and balance.
MIXTURES = [("mixtral", "2x1x2", "--ep", 2, "--moe-capacity", 1, "--moe-aux-loss", 0.1),
            ("deepseek_v3", "2x1x2", "--ep", 2, "--moe-capacity", 1, "--moe-bias-rate", 0.01),
            ("deepseek_v3", "4x1x1", "--ep", 4)]
SAMPLE, ROUTES = 40, 16
suite = Suite("ir mutation")


def check(folder, model, mesh):
    path = write_small(folder, model)
    flags = [] if suite.full else ["--sample", SAMPLE]
    done = call([MUTANTS, path, mesh, 4, *flags], check=False, timeout=36000)
    require(done.returncode in (0, 1), f"exit {done.returncode}: {done.stderr[-2000:]}")
    result = json.loads(done.stdout)
    survivors = result["survivors"]
    rest = result["total"] - result["killed"] - result["equivalent"] - result["below"]
    require(rest == len(survivors), "killed, equivalent, below and survivors are not all")
    require(not survivors, "survivors: " + json.dumps(survivors, indent=1))
    require(result["total"] == (result["listed"] if suite.full else SAMPLE), "not all were decided")
    require(set(result["phases"]) == {"raise", "train", "shard", "partition"} or not suite.full,
            f"phases are {sorted(result['phases'])}")
    require(result["listed"] >= 1000, f"only {result['listed']} faults")
    return (f"of {result['listed']} faults {result['total']}: {result['killed']} found, "
            f"{result['equivalent']} change nothing, {result['below']} stay below 1e-3; "
            f"{result['killed_by']}")


def check_low(folder, model, mesh, precision, *which):
    flags = [] if suite.full else ["--sample", SAMPLE]
    done = call([MUTANTS, write_small(folder, model), mesh, 4, "--precision", precision, "--skip",
                 *which, *flags], check=False, timeout=36000)
    require(done.returncode in (0, 1), f"exit {done.returncode}: {done.stderr[-2000:]}")
    result = json.loads(done.stdout)
    require(not result["survivors"], "survivors: " + json.dumps(result["survivors"], indent=1))
    require(result["killed"] >= 8, f"only {result['killed']} are found")
    wanted = "types:" if "types" in which else "updates:skip"
    by = sum(n for name, n in result["killed_by"].items() if name.startswith(wanted))
    require(by >= 4, f"{wanted} finds only {by}")
    return (f"of {result['total']}: {result['killed']} found, {result['below']} stay below 1e-3; "
            f"{result['killed_by']}")


def check_mixture(folder, model, mesh, *flags):
    path, notes = write_small(folder, model), []
    for which in [["--family", "routes"], []] if suite.full else [["--family", "routes", "--sample", ROUTES]]:
        done = call([MUTANTS, path, mesh, 8, *flags, *which], check=False, timeout=36000)
        require(done.returncode in (0, 1), f"exit {done.returncode}: {done.stderr[-2000:]}")
        result = json.loads(done.stdout)
        require(not result["survivors"], "survivors: " + json.dumps(result["survivors"], indent=1))
        require(not which or result["killed"] == result["total"] >= ROUTES,
                f"of {result['total']} faults of routes {result['killed']} are found; not {result['small']}")
        notes.append(f"of {result['total']}: {result['killed']} found, {result['below']} stay below 1e-3; {result['killed_by']}")
    return "; ".join(notes)


def check_lost(folder):
    """All faults of routes where ranks lack room: some change nothing but what the plan counts."""
    done = call([MUTANTS, write_small(folder, "mixtral"), "4x1x1", 8, "--ep", 4, "--moe-budget", 1,
                 "--family", "routes"], check=False, timeout=36000)
    require(done.returncode == 0, f"exit {done.returncode}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    result = json.loads(done.stdout)
    require(result["killed"] == result["total"] >= 2, f"of {result['total']} faults {result['killed']} are found")
    require(result["killed_by"].get("budget:lost"), f"no fault is found by the count: {result['killed_by']}")
    return str(result["killed_by"])


for model, mesh in MODELS:
    suite.run(f"{model} on {mesh}", check, model, mesh)
for model, mesh, precision, *which in LOW:
    suite.run(f"{model} in {precision} on {mesh}, {' '.join(which)}", check_low, model, mesh,
              precision, *which)
for model, mesh, *flags in MIXTURES:
    suite.run(f"{model} on {mesh} {' '.join(map(str, flags))}", check_mixture, model, mesh, *flags)
suite.run("rows without room", check_lost)
suite.finish()
