"""Every small fault of the IR that raise, train, shard or partition leaves is found by the
default `verify`, shown to change nothing, or changes no loss and no gradient by 1e-3.

Two architectures on two meshes. An ordinary run takes a fixed sample of the faults, `--full`
all of them.
"""
import json
import os

from harness import LLMC, Suite, call, require
from small import write_small

MUTANTS = os.path.join(os.path.dirname(LLMC), "llmc-ir-mutants")
MODELS = [("gpt2", "2x1x2"), ("llama", "1x2x2")]
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


for model, mesh in MODELS:
    suite.run(f"{model} on {mesh}", check, model, mesh)
suite.finish()
