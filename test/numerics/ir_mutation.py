"""Every small fault of the IR that raise, train, shard or partition leaves is found by the
default `verify`, shown to change nothing, or changes no loss and no gradient by 1e-3.

Two architectures on two meshes; of a training in bf16 or fp16 that skips steps, the faults of
types, of the selects and of the flag on which ranks agree. An ordinary run takes a fixed sample of
the faults, `--full` all of them.
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
SAMPLE = 40
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


for model, mesh in MODELS:
    suite.run(f"{model} on {mesh}", check, model, mesh)
for model, mesh, precision, *which in LOW:
    suite.run(f"{model} in {precision} on {mesh}, {' '.join(which)}", check_low, model, mesh,
              precision, *which)
suite.finish()
