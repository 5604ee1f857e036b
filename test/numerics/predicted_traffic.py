"""What llmc plan prices, beside the plan that llmc compile makes of the same choices.

    predicted_traffic.py [NAME] [--full] [--draws N] [--seed S]

Draws models, meshes and choices of all forms. Equal are, for each stage, the FLOPs of products and of attention, what is
computed again too; the bytes of states by role and those that slots of micro-batches keep; and for each pass and kind the
bytes of all collectives of a step, but for scalars (the loss, the norm) and sums of what several stages hold.
"""
import collections
import json
import os
import random
import sys

from harness import DATA, LLMC, Suite, call, compile_model, inspect, require

DENSE = ["gpt2", "llama", "qwen3", "gemma2", "nemotron", "phi3", "mistral", "qwen2", "olmo2", "gpt_neox"]
MIXTURES = ["mixtral", "qwen3_moe", "gpt_oss", "qwen2_moe"]
SCALAR = 8  # bytes
PADDING = 64  # bytes of a stage's flat states: which of them share a bucket depends on the stage's other parameters


def option(name, standard):
    return int(sys.argv[sys.argv.index(name) + 1]) if name in sys.argv else standard


def choices(draw):
    """Draws a model and flags that both commands take."""
    mixes = draw.random() < 0.3
    tp, pp, dp = draw.choice([1, 2, 2]), draw.choice([1, 2, 3]), draw.choice([1, 2, 4] if mixes else [1, 2, 3])
    flags = {"dp": dp, "pp": pp, "tp": tp, "micro-batch": draw.choice([1, 2]), "zero": draw.choice([0, 1, 2, 3]),
             "precision": draw.choice(["fp32", "bf16"]), "recompute": draw.choice(["none", "selective", "full"])}
    if mixes and dp > 1:
        flags["ep"] = draw.choice([1, 2])
    elif not mixes:
        flags["cp"] = draw.choice([1, 1, 2]) if tp > 1 else 2
        if flags["cp"] > 1:
            flags["cp-kind"] = draw.choice(["heads", "ring"])
    if tp > 1 and flags.get("ep", 1) == 1:
        flags["sequence-parallel"] = draw.choice(["on", "off"])
    if pp > 1 and draw.random() < 0.4:
        flags["schedule"] = draw.choice(["gpipe", "zero-bubble"])
    return draw.choice(MIXTURES if mixes else DENSE), flags


def by_kind(entries, bytes_of):
    sums = collections.Counter()
    for entry in entries:
        sums[entry["stage"], entry["phase"], entry["kind"]] += bytes_of(entry)
    return {key: value for key, value in sums.items() if value}


def collectives(program):
    return by_kind((c for c in program["collectives"] if c["bytes"] > SCALAR and "pp" not in c["axes"]), lambda c: c["bytes"] * c["per_step"])


def same(what, ours, theirs, within=0):
    require(abs(ours - theirs) <= max(within, 1e-9 * abs(theirs)), f"{what}: {ours:,.17g} are priced, and the plan has {theirs:,.17g}")


def equal(folder, name, flags, changes=None):
    model, out = os.path.join(DATA, name, "config.json"), os.path.join(folder, "program")
    if changes:
        with open(model) as f:
            config = json.load(f) | changes
        model = os.path.join(folder, "config.json")
        with open(model, "w") as f:
            json.dump(config, f)
    flags = [str(word) for flag, value in flags.items() for word in ("--" + flag, value)]
    mixes = "--ep" in flags and flags[flags.index("--ep") + 1] != "1"
    flags += ["--moe-budget", "1"] if mixes else []
    compile_model(model, out, "--weights", "random", *flags)
    told = json.loads(call([LLMC, "plan", model, "--gpu", "h100", "--json", *flags]).stdout)["chosen"]
    program = inspect(out)
    simulated = json.loads(call([LLMC, "trace", out, "--gpu", "h100", "--json"]).stdout)
    for ours, theirs in zip(told["flops"], simulated["flops"], strict=True):
        for what in ("products", "attention"):
            same(f"stage {ours['stage']}, FLOPs of {what}", ours[what], theirs[what])
    # Leaves out what a mixture counts of rows that found no room, 4 bytes a token, which travels with the activations.
    counts = 0.02 if mixes else 0
    for ours, theirs in zip(told["memory_bytes"]["stages"], program["memory"], strict=True):
        for what in ("weights", "masters", "gradients", "optimizer"):
            same(f"stage {ours['stage']}, bytes of {what}", ours[what], theirs[what], PADDING)
        same(f"stage {ours['stage']}, bytes of activations", ours["activations"], theirs["activations"], counts * theirs["activations"])
        # Counts each tensor without what lies between it and the next one, which begins a cache line.
        same(f"stage {ours['stage']}, bytes of the arena", ours["peak"], theirs["arena_bytes"],
             theirs["gaps"] + counts * theirs["arena_bytes"])
    priced, real = by_kind(told["traffic"], lambda t: t["bytes"]), collectives(program)
    calls = by_kind(told["traffic"], lambda t: t["calls"])
    for key in sorted(set(priced) | set(real)):
        same(f"stage, pass, kind {key}, bytes", priced.get(key, 0), real.get(key, 0), PADDING * calls.get(key, 0))
    return f"{len(real)} kinds, {sum(real.values()):,.0f} bytes"


# Chunks of a stage; windows that leave out keys of a ring; an update whose part of the weights is more than what passes need;
# gradients that are summed in another type.
CASES = [("llama", {"num_hidden_layers": 8}, {"pp": 2, "schedule": "interleaved", "virtual-stages": 2, "precision": "bf16", "recompute": "none"}),
         ("llama", {"num_hidden_layers": 9}, {"pp": 3, "dp": 2, "schedule": "interleaved", "zero": 1, "precision": "fp32", "recompute": "full"}),
         ("mistral", {"sliding_window": 12, "num_hidden_layers": 3}, {"cp": 4, "cp-kind": "ring", "seq": 128, "precision": "bf16", "recompute": "none"}),
         ("llama", {"num_hidden_layers": 30}, {"dp": 2, "zero": 2, "precision": "fp32", "recompute": "full"}),
         ("llama", {"num_hidden_layers": 5}, {"dp": 2, "zero": 1, "reduce-dtype": "bf16", "precision": "bf16", "recompute": "none"})]

suite = Suite("predicted_traffic")
for name, changes, flags in CASES:
    suite.run(f"{name} {changes} " + " ".join(f"{flag}={value}" for flag, value in flags.items()), equal, name, flags, changes)
seed = option("--seed", 1)
for number in range(option("--draws", 100 if suite.full else 16)):
    name, flags = choices(random.Random(seed * 100_000 + number))
    suite.run(f"draw {number}: {name} " + " ".join(f"{flag}={value}" for flag, value in flags.items()), equal, name, flags)
suite.finish()
