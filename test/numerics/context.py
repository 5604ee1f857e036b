"""Context parallelism by heads: oracles, counted exchanges, memory, inference, refusals.

With b rows of s tokens, h heads and k key heads (as repeated) of dimension d, in fp32, a layer's
forward exchanges 4 (2 h + 2 k) d b s / (cp tp) bytes, and its backward as many (Jacobs et al., 2023,
section 3.2).
"""
import collections
import json
import os

import numpy as np

from context_checks import SEQ, build, config, inference, oracle, verified
from harness import DATA, LLMC, Suite, call, compile_model, inspect, require, train

HEADS = ("--cp-kind", "heads")


def exchanged(folder, model, cp, tp, rows, heads, kv_heads, dim, *flags):
    program, _ = build(folder, model, f"dp=1,tp={tp}", "--cp", cp, "--micro-batch", rows, "--global-batch", 2 * rows,
                       *HEADS, *flags)
    plan = inspect(program)
    total, layers, m = collections.Counter(), plan["model"]["layers"], plan["micro_batches"]
    for c in plan["collectives"]:
        # Once a step gradients are summed, and each micro-batch the loss and its count of tokens.
        require(c["per_step"] < m or "cp" not in c["axes"] or c["kind"] == "all_to_all" or c["bytes"] <= 8,
                f"{c['kind']} of {c['bytes']} bytes over cp in {c['phase']}")
        if c["kind"] == "all_to_all":
            total[c["phase"]] += c["bytes"] * c["per_step"]
    expected = 4 * (2 * heads + 2 * kv_heads) * dim * rows * SEQ // (cp * tp) * layers * m
    require(total == {"forward": expected, "backward": expected}, f"{dict(total)}, expected {expected} each way")
    ran_file = os.path.join(folder, "counts.json")
    np.random.default_rng(1).integers(0, 50, 4000).astype("<u2").tofile(os.path.join(folder, "tokens.bin"))
    train(program, folder, "--data", os.path.join(folder, "tokens.bin"), "--steps", 1, "--count-collectives", ran_file)
    with open(ran_file) as f:
        ran = sum(c["bytes"] * c["per_step"] for c in json.load(f)["collectives"] if c["kind"] == "all_to_all")
    require(ran == 2 * expected, f"{ran} bytes were exchanged, expected {2 * expected}")
    return f"{expected:,} bytes each way"


def smaller(folder):
    """What a rank keeps falls as the number of ranks grows, where no key head has to be repeated."""
    kept = {}
    for cp in (1, 2, 4):
        program, _ = build(folder, "gpt2", "1", "--cp", cp, *HEADS)
        kept[cp] = inspect(program)["memory"][0]["activations"]
    for cp in (2, 4):
        require(abs(kept[cp] * cp / kept[1] - 1) <= 0.1, f"activations {kept}")
    return ", ".join(f"cp {cp}: {size:,} bytes" for cp, size in kept.items())


def explained(folder):
    program, done = build(folder, "gpt2", "1", "--cp", 2, *HEADS)
    require("x cp 2 = 2 ranks" in done.stdout and "cp-kind heads" in done.stdout, done.stdout)
    calls = json.loads(call([LLMC, "explain", program, "--json"]).stdout)["collectives"]
    name = next(c["name"] for c in calls if c["kind"] == "all_to_all")
    answer = call([LLMC, "explain", program, name]).stdout
    for words in ["tactic      context", "attention reaches those of other ranks", "--cp 1: no such call", "16/cp"]:
        require(words in answer, f"no '{words}' in {answer}")


def refused(folder):
    for model, flags, words in [
            ("gpt2", ["--cp", 3], ["16 tokens in a row, which cp = 3 ranks cannot share", "15 and 18"]),
            ("llama", ["--cp", 8], ["has 4 heads, which cp = 8 times tp = 1 ranks cannot share", "valid sizes of cp are 1 2 4"]),
            ("llama", ["--cp", 4, "--tp", 2], ["cp = 4 times tp = 2"]),
            ("gpt2/dynamo.onnx", ["--cp", 2, "--raise", "off"], ["no attention is found", "use cp = 1"])]:
        path = os.path.join(DATA, model) if ".onnx" in model else config(model)
        done = compile_model(path, os.path.join(folder, "p"), "--seq", SEQ, *HEADS, *flags, check=False)
        require(done.returncode == 1 and all(word in done.stderr for word in words), f"{flags}: {done.stderr}")


suite = Suite("context")
for model in ["gpt2", "llama", "gemma2", "bert", "qwen3"]:
    ways = [("1", ("--cp", 4)), ("1x1x2", ("--cp", 2)), ("1", ("--cp", 2)), ("1x2x1", ("--cp", 2)),
            ("2x1x1", ("--cp", 2, "--zero", 3))]
    for mesh, flags in ways if suite.full or model == "gpt2" else ways[:2]:
        suite.run(f"{model} on {mesh} " + " ".join(map(str, flags)), oracle, model, mesh, *flags, *HEADS)
suite.run("exchanges, gpt2 with cp 2", exchanged, "gpt2", 2, 1, 1, 8, 8, 8)
suite.run("exchanges, llama with cp 2, tp 2, 2 rows", exchanged, "llama", 2, 2, 2, 4, 4, 8)
suite.run("exchanges, llama with cp 2, selective", exchanged, "llama", 2, 1, 1, 4, 2, 8, "--recompute", "selective")
suite.run("verified, llama on 1x2x2 with cp 2, bf16", verified, "llama", "1x2x2", 2, "--precision", "bf16", *HEADS)
suite.run("verified, gemma2 on 2x1x1 with cp 2, full", verified, "gemma2", "2x1x1", 2, "--recompute", "full", *HEADS)
suite.run("verified by a smaller model, llama on 1x1x2 with cp 2", verified, "llama", "1x1x2", 2, "--twin", "on", *HEADS)
with open(config("gpt2")) as f:  # A row may use all positions of its table.
    positions = json.load(f)["n_positions"]
suite.run("verified, gpt2 with cp 2 and all its positions", verified, "gpt2", "1", 2, "--seq", positions, *HEADS)
suite.run("what a rank keeps", smaller)
for model in ["gpt2", "qwen3"]:
    suite.run(f"inference, {model}", inference, model, *HEADS)
suite.run("explain says why", explained)
suite.run("refusals", refused)
suite.finish()
