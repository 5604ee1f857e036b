"""The collectives that llmc plan prices, beside those of the plan that llmc compile makes of the same choices.

    predicted_traffic.py [NAME] [--full] [--draws N] [--seed S]

Draws models, meshes and choices. For each stage the FLOPs of products and of attention are equal; for each stage, pass, kind
and axis the bytes of all calls of a step, without those that data-parallel ranks exchange of gradients and weights, which
the table does not have.
"""
import collections
import json
import os
import random
import sys

from harness import DATA, LLMC, Suite, call, compile_model, inspect, require

DENSE = ["gpt2", "llama", "qwen3", "gemma2", "nemotron", "phi3", "mistral", "qwen2", "olmo2", "gpt_neox"]
MIXTURES = ["mixtral", "qwen3_moe", "gpt_oss", "qwen2_moe"]
DATA_AXES = {"dp", "cp", "edp"}


def option(name, standard):
    return int(sys.argv[sys.argv.index(name) + 1]) if name in sys.argv else standard


def choices(draw):
    """Draws a model and flags that both commands take."""
    mixes = draw.random() < 0.3
    tp, pp, dp = draw.choice([1, 2, 2]), draw.choice([1, 2]), draw.choice([1, 2, 4] if mixes else [1, 2, 3])
    flags = {"dp": dp, "pp": pp, "tp": tp, "micro-batch": draw.choice([1, 2]), "zero": draw.choice([0, 1]),
             "precision": draw.choice(["fp32", "bf16"])}
    if mixes and dp > 1:
        flags["ep"] = draw.choice([1, 2])
    elif not mixes:
        flags["cp"] = draw.choice([1, 1, 2]) if tp > 1 else 2
    if tp > 1 and flags.get("ep", 1) == 1:
        flags["sequence-parallel"] = draw.choice(["on", "off"])
    if pp > 1 and draw.random() < 0.3:
        flags["schedule"] = draw.choice(["gpipe", "zero-bubble"])
    return draw.choice(MIXTURES if mixes else DENSE), flags


def by_kind(entries, bytes_of):
    sums = collections.Counter()
    for entry in entries:
        sums[entry["stage"], entry["phase"], entry["kind"]] += bytes_of(entry)
    return {key: value for key, value in sums.items() if value}


def compiled(folder, model, flags):
    out = os.path.join(folder, "program")
    more = ["--moe-budget", 1] if "--ep" in flags and flags[flags.index("--ep") + 1] > 1 else []
    compile_model(model, out, "--weights", "random", *flags, *more)
    ofGradients = {"all_reduce", "reduce_scatter"}
    return by_kind((c for c in inspect(out)["collectives"]
                    if c["phase"] == "forward" or c["phase"] == "backward" and not (c["kind"] in ofGradients and DATA_AXES & set(c["axes"]))),
                   lambda c: c["bytes"] * c["per_step"])


def equal(folder, name, flags):
    model = os.path.join(DATA, name, "config.json")
    flags = [word for flag, value in flags.items() for word in ("--" + flag, value)]
    done = call([LLMC, "plan", model, "--gpu", "h100", "--recompute", "none", "--json", *map(str, flags)])
    priced = by_kind(json.loads(done.stdout)["chosen"]["traffic"], lambda t: t["bytes"])
    told = json.loads(done.stdout)["chosen"]
    real = compiled(folder, model, flags)
    simulated = json.loads(call([LLMC, "trace", os.path.join(folder, "program"), "--gpu", "h100", "--json"]).stdout)
    # Leaves out attention of a ring: what ranks see there depends on where they stand, which a launch does not say.
    ring = len(inspect(os.path.join(folder, "program"))["attention_flops"]) > 1
    for ours, theirs in zip(told["flops"], simulated["flops"], strict=True):
        for what in ("products",) if ring else ("products", "attention"):
            require(abs(ours[what] - theirs[what]) <= 1e-9 * theirs[what],
                    f"stage {ours['stage']}: {ours[what]:.17g} FLOPs of {what} are priced, and the plan has {theirs[what]:.17g}")
    for key in sorted(set(priced) | set(real)):
        require(priced.get(key, 0) == real.get(key, 0), f"stage, pass, kind {key}: {priced.get(key, 0)} bytes are priced, and the "
                f"plan has {real.get(key, 0)}")
    return f"{len(real)} kinds, {sum(real.values()):,.0f} bytes"


suite = Suite("predicted_traffic")
seed = option("--seed", 1)
for number in range(option("--draws", 100 if suite.full else 16)):
    name, flags = choices(random.Random(seed * 100_000 + number))
    suite.run(f"draw {number}: {name} " + " ".join(f"{flag}={value}" for flag, value in flags.items()), equal, name, flags)
suite.finish()
