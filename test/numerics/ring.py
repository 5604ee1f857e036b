"""Context parallelism by a ring: oracles, counted messages, balance, memory, inference, refusals.

With b rows of s tokens, k key heads of dimension d and e bytes an element, X = b (s/cp) (k/tp) d. Per
layer and micro-batch a rank sends, forward and backward, 2 X e bytes and the positions of its keys on
each of cp - 1 hops, and backward 2 X 4 bytes of cotangents on as many (Liu et al., 2023).
"""
import collections
import functools
import json
import os

import numpy as np

from context_checks import SEQ, build, config, inference, oracle, verified
from harness import LLMC, Suite, call, compile_model, inspect, require, train

RING = ("--cp-kind", "ring")


def counted(folder, model, cp, tp, rows, kv_heads, dim, *flags, size=4, causal=True, places=1, hops=None):
    """Messages in plan and executor, one a hop; positions of keys go around `places` times in backward."""
    hops = cp - 1 if hops is None else hops
    program, _ = build(folder, model, f"dp=1,tp={tp}", "--cp", cp, "--micro-batch", rows, "--global-batch", 2 * rows,
                       *RING, *flags)
    plan = inspect(program)
    sent, calls, layers, m = collections.Counter(), collections.Counter(), plan["model"]["layers"], plan["micro_batches"]
    for c in plan["collectives"]:
        require(c["kind"] not in ("all_to_all", "all_gather") or "cp" not in c["axes"] or c["per_step"] < m,
                f"{c['kind']} of {c['bytes']} bytes over cp in {c['phase']}")
        if c["kind"] == "shift":
            sent[c["phase"]] += c["bytes"] * c["per_step"]
            calls[c["phase"]] += c["per_step"]
    part = rows * SEQ // cp * max(kv_heads // tp, 1) * dim
    keys, positions = 2 * part * size, 8 * SEQ // cp if causal else 0
    expected = {"forward": hops * (keys + positions), "backward": hops * (keys + places * positions + 2 * part * 4)}
    expected = {phase: bytes * layers * m for phase, bytes in expected.items() if bytes}
    require(sent == expected, f"{dict(sent)}, expected {expected}")
    require(calls["forward"] == hops * layers * m, f"{calls['forward']} messages forward")
    ran_file = os.path.join(folder, "counts.json")
    np.random.default_rng(1).integers(0, 50, 4000).astype("<u2").tofile(os.path.join(folder, "tokens.bin"))
    train(program, folder, "--data", os.path.join(folder, "tokens.bin"), "--steps", 1, "--count-collectives", ran_file)
    with open(ran_file) as f:
        ran = sum(c["bytes"] * c["per_step"] for c in json.load(f)["sends"])
    require(ran == sum(expected.values()), f"{ran} bytes were sent, expected {sum(expected.values())}")
    return ", ".join(f"{bytes:,} bytes {phase}" for phase, bytes in expected.items())


def mistral(folder, window):
    """A config whose rows see `window` keys."""
    with open(config("mistral")) as f:
        content = json.load(f)
    path = os.path.join(folder, "config.json")
    with open(path, "w") as f:
        json.dump({**content, "sliding_window": window}, f)
    return path


def windowed(folder, window, cp):
    return verified(folder, mistral(folder, window), "1", cp, *RING)


def passed_over(folder, window, cp, hops):
    """Ranks that no row sees anything of send nothing."""
    return counted(folder, mistral(folder, window), cp, 1, 1, 1, 8, hops=hops)


def reported(folder):
    """Ranks of a ring are in one column of the schedule, and one group."""
    program, _ = build(folder, "llama", "1x2x1", "--cp", 4, *RING)
    with_ring = inspect(program)["bubble"]
    calls = json.loads(call([LLMC, "explain", program, "--json"]).stdout)["collectives"]
    name = next(c["name"] for c in calls if c["kind"] == "shift" and c["stage"] == 0)
    answer = call([LLMC, "explain", program, name]).stdout
    require("4 ranks; 1 group like this: [0,1,2,3]" in answer, answer)
    program, _ = build(folder, "llama", "1x2x1")
    require(with_ring == inspect(program)["bubble"], f"{with_ring}, without a ring {inspect(program)['bubble']}")


def balance(folder):
    """Attention of causal rows costs all ranks as much; in an inference, whose rows keep their order, it does not."""
    found, total = {}, {}
    for name, flags in (("train", ("--seq", 64, "--global-batch", 16)), ("infer", ("--infer", "--dim", "batch=1,sequence=64"))):
        out = os.path.join(folder, name)
        compile_model(config("llama"), out, "--cp", 4, *RING, *flags)
        flops = inspect(out)["attention_flops"]
        require(len(flops) == 4, f"{flops}")
        total[name] = sum(flops)
        found[name] = max(flops) * 4 / sum(flops)
    whole = os.path.join(folder, "whole")
    compile_model(config("llama"), whole, "--seq", 64, "--global-batch", 16)
    one, = inspect(whole)["attention_flops"]
    require(total["train"] == one, f"{total['train']} FLOPs of all ranks, {one} of one")
    require(found["train"] <= 1.02 and 1.6 <= found["infer"] <= 1.75, f"largest by mean {found}")
    return ", ".join(f"{name} {ratio:.3f}" for name, ratio in found.items())


suite = Suite("ring")
for model in ["gpt2", "llama", "gemma2", "bert", "qwen3"]:
    for mesh, flags in [("1", ("--cp", 2)), ("1", ("--cp", 4)), ("1x1x2", ("--cp", 2)), ("1x2x1", ("--cp", 2)),
                        ("2x1x1", ("--cp", 2, "--zero", 3))]:
        suite.run(f"{model} on {mesh} " + " ".join(map(str, flags)), oracle, model, mesh, *flags, *RING)
suite.run("messages, gpt2 with cp 2", counted, "gpt2", 2, 1, 1, 8, 8)
suite.run("messages, llama with cp 4, 2 rows", counted, "llama", 4, 1, 2, 2, 8)
# The forward that runs again meets the keys that go around for the backward, but computes its own positions.
suite.run("messages, llama with cp 2, tp 2, full", functools.partial(counted, places=2), "llama", 2, 2, 1, 2, 8,
          "--recompute", "full")
suite.run("verified, llama with cp 3 on 1x2x1", verified, "llama", "1x2x1", 3, "--seq", 24, *RING)
suite.run("verified, llama on 1x2x2 with cp 2, bf16", verified, "llama", "1x2x2", 2, "--precision", "bf16", *RING)
suite.run("verified, gemma2 on 2x1x1 with cp 2, full", verified, "gemma2", "2x1x1", 2, "--recompute", "full", *RING)
suite.run("verified, llama with cp 4, full", verified, "llama", "1", 4, "--recompute", "full", *RING)
suite.run("verified, gemma2 with cp 4, selective", verified, "gemma2", "1", 4, "--recompute", "selective", *RING)
# Logarithms of sums of five and more blocks are joined by kernels that read some of them from others.
suite.run("verified, llama with cp 5", verified, "llama", "1", 5, "--seq", 40, *RING)
suite.run("verified, gpt2 with cp 4 and dropout", verified, "gpt2", "1", 4, "--dropout", 0.1, *RING)
# Ranks of cp 2 and 4 have parts of 8 and 4 tokens, each of two pieces: windows are shorter and longer than each.
for cp, window in [(2, 3), (2, 11), (4, 1), (4, 3), (4, 7)]:
    suite.run(f"verified, mistral with a window of {window} on cp {cp}", windowed, window, cp)
# Blocks have 2 tokens. A window of 3 reaches the block before, which lies on a rank beside; one of 4 the block before that.
for window, hops in [(1, 0), (3, 2), (4, 3)]:
    suite.run(f"messages, mistral with a window of {window} on cp 4", passed_over, window, 4, hops)
suite.run("verified by a smaller model, llama on 1x1x2 with cp 2", verified, "llama", "1x1x2", 2, "--twin", "on", *RING)
suite.run("balance of attention", balance)
suite.run("reports of rings", reported)
for model in ["gpt2", "qwen3", "bert"]:
    suite.run(f"inference, {model}", inference, model, *RING)
suite.finish()
