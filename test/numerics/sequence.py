"""Sequence parallelism and recomputation: counted in the plan and while running, and in memory.

With b rows of s tokens a micro-batch and a rank, width d, fp32, all payloads are 4bsd bytes. Of a
layer whose attention and MLP follow each other: forward 2 all-gathers and 2 reduce-scatters,
backward the same and 2 all-gathers again for gradients of weights (Korthikanti et al., 2022,
section 4.2.2). Around the layers: a reduce-scatter behind the embedding, an all-gather before the
head and again in backward, a reduce-scatter of the head's input gradient, an all-gather of the
embedding's gradient.
"""
import collections
import json
import os
import re

import numpy as np

from harness import DATA, LLMC, Suite, call, compile_model, inspect, require, train

SEQ = 16


def build(folder, model, mesh, *flags):
    program = os.path.join(folder, "program")
    compile_model(os.path.join(DATA, model, "config.json"), program, "--mesh", mesh, "--seq", SEQ, *flags)
    return program, inspect(program)


def width_of(model):
    with open(os.path.join(DATA, model, "config.json")) as f:
        content = json.load(f)
    return content.get("n_embd") or content["hidden_size"]


def calls(plan, stage, payload):
    """(phase, kind) -> calls over tp a micro-batch; those of other sizes are the loss's."""
    counts, m = collections.Counter(), plan["micro_batches"]
    for c in plan["collectives"]:
        if c["axes"] != ["tp"] or c["stage"] != stage or c["phase"] == "update":
            continue
        if c["bytes"] == payload:
            counts[c["phase"], c["kind"]] += c["per_step"] // m
        else:
            require(c["kind"] == "all_reduce" and c["bytes"] < payload, f"a {c['kind']} of {c['bytes']} bytes over tp")
    return counts


def expected_calls(layers, first, last, gathers=2, sums=2, redone=0):
    """`gathers` and `sums` of a layer's forward; `redone` of these sums, done again by backward."""
    return {("forward", "all_gather"): gathers * layers + last,
            ("forward", "reduce_scatter"): sums * layers + first,
            ("backward", "all_gather"): (gathers + sums) * layers + last + first,
            ("backward", "reduce_scatter"): (gathers + redone) * layers + last}


def counted(folder, model, mesh, micro_batch, kind, flags=(), gathers=2, sums=2, redone=0):
    dp, pp, tp = map(int, mesh.split("x"))
    _, plan = build(folder, model, mesh, "--micro-batch", micro_batch, "--global-batch", 4 * dp * micro_batch, *flags)
    payload = 4 * micro_batch * SEQ * width_of(model)
    for stage in plan["stages"]:
        s = stage["stage"]
        layers = stage["last_layer"] - stage["first_layer"] + 1
        expected = {k: v for k, v in expected_calls(layers, s == 0, s == pp - 1, gathers, sums, redone).items() if v}
        require(dict(calls(plan, s, payload)) == expected, f"stage {s}: {dict(calls(plan, s, payload))}, expected {expected}")
    for x in plan["sends"]:
        require(x["bytes"] == payload // tp, f"a message of {x['bytes']} bytes, expected {payload // tp}")


def default(folder):
    """On where tp divides the tokens, else off; both are printed."""
    program = os.path.join(folder, "p")
    config = os.path.join(DATA, "gpt2", "config.json")
    for seq, mesh, said in [(16, "1x1x2", "sequence-parallel on"), (15, "1x1x2", "sequence-parallel off (tp 2 does not divide 15 tokens)"),
                            (16, "2x1x1", "sequence-parallel off,")]:
        done = compile_model(config, program, "--mesh", mesh, "--seq", seq)
        require(said in done.stdout, f"--seq {seq} --mesh {mesh}: {done.stdout}")
    done = compile_model(config, program, "--mesh", "1x1x4", "--seq", 18, "--sequence-parallel", "on", check=False)
    require(done.returncode == 1 and "are 16 and 20" in done.stderr, done.stderr)
    done = compile_model(config, program, "--mesh", "1x1x2", "--seq", 16, "--infer", "--dim", "batch=1")
    require("sequence-parallel off" in done.stdout, done.stdout)


def running(folder, mesh, *flags):
    program, plan = build(folder, "gpt2", mesh, "--global-batch", 8, *flags)
    ran_file = os.path.join(folder, "counts.json")
    train(program, folder, "--data", os.path.join(DATA, "gpt2", "text.bin"), "--steps", 1,
          "--count-collectives", ran_file)
    with open(ran_file) as f:
        ran = json.load(f)

    def table(entries, keys):
        sums = collections.Counter()
        for e in entries:
            sums[tuple(json.dumps(e[k]) for k in keys)] += e["per_step"]
        return sums

    for what, keys in [("collectives", ["kind", "axes", "stage", "phase", "bytes"]), ("sends", ["from_stage", "to_stage", "bytes"])]:
        require(table(ran[what], keys) == table(plan[what], keys), f"{what} differ: ran {ran[what]}, plan {plan[what]}")


def once_a_step(folder):
    """Gradients of norms and of biases behind row cuts are summed over tp in the update, once a step."""
    _, plan = build(folder, "gpt2", "1x1x2", "--global-batch", 8)
    d, layers = width_of("gpt2"), plan["model"]["layers"]
    sums = [c for c in plan["collectives"] if c["axes"] == ["tp"] and c["phase"] == "update" and c["bytes"] > 4]
    require(all(c["kind"] == "all_reduce" for c in sums), str(sums))
    total = sum(c["bytes"] * c["per_step"] for c in sums)
    # Two norms (scale and bias) and two biases behind row cuts a layer; the last norm.
    require(total == 4 * d * (6 * layers + 2), f"{total} bytes, expected {4 * d * (6 * layers + 2)}")


def activations(folder, model, mesh, *flags):
    _, plan = build(folder, model, mesh, *flags)
    return max(m["activations"] for m in plan["memory"]), max(s["arena_bytes"] for s in plan["stages"])


def smaller(folder, model, mesh):
    sizes = [activations(folder, model, mesh, "--recompute", kind) for kind in ("full", "selective", "none")]
    require(sizes[0][0] < sizes[1][0] < sizes[2][0], f"activations {sizes}")
    # With one layer a stage, what is computed again is as large as what was kept.
    require(sizes[0][1] < sizes[2][1] and sizes[1][1] < sizes[2][1], f"arenas {sizes}")
    require(sizes[0][1] < sizes[1][1] or mesh != "1x1x1", f"arenas {sizes}")
    return ", ".join(f"{a:,} of {b:,} bytes" for a, b in sizes)


def layer_input_alone(folder):
    """`full` keeps the input of a layer: b s d / tp bytes x 4 for each layer more."""
    def of(layers):
        with open(os.path.join(DATA, "gpt2", "config.json")) as f:
            content = json.load(f)
        content["n_layer"] = layers
        path = os.path.join(folder, "config.json")
        with open(path, "w") as f:
            json.dump(content, f)
        program = os.path.join(folder, "program")
        compile_model(path, program, "--mesh", "1x1x2", "--seq", SEQ, "--recompute", "full")
        return inspect(program)["memory"][0]["activations"]
    more = of(7) - of(6)
    expected = 4 * SEQ * width_of("gpt2") // 2
    require(more == expected, f"a layer more keeps {more} bytes, expected {expected}")


def explained(folder):
    program, _ = build(folder, "llama", "1x1x2", "--recompute", "full")
    text = call([LLMC, "explain", program]).stdout
    plan = inspect(program)
    require((plan["sequence_parallel"], plan["recompute"]) == ("on", "full"), "inspect names both choices")
    again = re.search(r", again \(.*\n +(\S+)", text)
    require(again, f"no call is made again: {text}")
    answer = call([LLMC, "explain", program, again[1]]).stdout
    for words in ["recompute made it again", "--recompute none or selective: "]:
        require(words in answer, f"no '{words}' in {answer}")
    for words in ["Computed again in the backward", "rms_norm of model.layers.*.input_layernorm", "FLOPs", "sequence of"]:
        require(words in text, f"no '{words}' in {text}")


def named(folder):
    """A call of a layer has that layer's name, not that of what the first layer reads."""
    program, _ = build(folder, "gpt2", "1x2x2")
    calls = json.loads(call([LLMC, "explain", program, "--json"]).stdout)["collectives"]
    last = [c["name"] for c in calls if c["stage"] == 1 and c["kind"] == "all_gather" and c["name"].startswith("tp/backward/")]
    require(len(last) >= 4 and not any("wpe" in name or "wte" in name for name in last), f"{last}")


def same_bits(folder, model, mesh, *flags):
    """Losses, gradients and weights have the same bits whatever backward computes again."""
    dumps, tokens = {}, os.path.join(folder, "tokens.bin")
    np.random.default_rng(16).integers(0, 50, 1000).astype("<u2").tofile(tokens)
    for kind in ("none", "selective", "full"):
        place = os.path.join(folder, kind)
        os.makedirs(place)
        program, _ = build(place, model, mesh, "--global-batch", 8, "--no-fusion", "--recompute", kind, *flags)
        dumps[kind] = train(program, place, "--data", tokens, "--steps", 3, "--seed", 1)
    first = dumps["none"]
    require(any(name.startswith("grad:") for name in first), f"no gradients in {sorted(first)[:5]}")
    for kind, dump in dumps.items():
        require(sorted(dump) == sorted(first), f"{kind} dumps other tensors")
        for name, value in first.items():
            require(value.tobytes() == dump[name].tobytes(), f"--recompute {kind}: {name} differs")
    return f"{len(first)} tensors"


suite = Suite("sequence")
for mesh in ["1x1x2", "1x1x4", "2x2x2"]:
    for model in ["gpt2", "llama"]:
        for micro_batch in [1, 2]:
            suite.run(f"{model} on {mesh}, {micro_batch} rows a micro-batch", counted, model, mesh, micro_batch, "none")
for model, gathers in [("phi", 1), ("gpt_neox", 2)]:
    # Attention and MLP stand side by side: one sum; NeoX gives each a norm of its own.
    suite.run(f"{model} on 1x1x2", counted, model, "1x1x2", 1, "none", (), gathers, 1)
for mesh in ["1x1x2", "2x2x2"]:
    suite.run(f"selective adds no call on {mesh}", counted, "gpt2", mesh, 1, "selective", ("--recompute", "selective"))
    suite.run(f"full sums attention again on {mesh}", counted, "gpt2", mesh, 1, "full", ("--recompute", "full"), 2, 2, 1)
suite.run("defaults", default)
for flags in [(), ("--recompute", "full"), ("--zero", 3, "--recompute", "full")]:
    suite.run("executor and plan agree " + " ".join(map(str, flags)), running, "2x2x2", *flags)
suite.run("sums of small gradients", once_a_step)
for model in ["gpt2", "llama", "gemma2", "bert", "qwen3"]:
    for mesh in ["1x1x1", "1x2x2"]:
        suite.run(f"full < selective < none: {model} on {mesh}", smaller, model, mesh)
for model in ["gpt2", "llama", "gemma2", "bert", "qwen3"]:
    suite.run(f"same bits in each kind, {model}", same_bits, model, "1x2x2")
suite.run("same bits in each kind, bf16", same_bits, "llama", "2x1x2", "--precision", "bf16", "--zero", 3)
suite.run("full keeps the input of a layer", layer_input_alone)
suite.run("explain tells what is computed again", explained)
suite.run("explain names calls by their layers", named)
suite.finish()
