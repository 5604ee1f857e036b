"""Collectives, messages and memory: counted in the plan, counted while running, and as theory says.

With b rows of s tokens a micro-batch and a rank, width d, fp32: tensor parallelism
does 4 all-reduces of 4bsd bytes a layer, one after the embedding, one before the head's input
gradient, at most three of 4bs in the loss (Shoeybi et al., 2019, section 3).
"""
import collections
import json
import os

from harness import DATA, Suite, call, compile_model, inspect, require, train

OWN = os.path.join(DATA, "gpt2")
with open(os.path.join(OWN, "config.json")) as f:
    CONFIG = json.load(f)
WIDTH, LAYERS, SEQ = CONFIG["n_embd"], CONFIG["n_layer"], 16


def build(folder, mesh, rows, *flags):
    program = os.path.join(folder, "program")
    compile_model(os.path.join(OWN, "config.json"), program, "--mesh", mesh, "--seq", SEQ,
                  "--global-batch", rows, *flags)
    return program, inspect(program)


def tensor_parallel(folder, mesh, micro_batch):
    program, plan = build(folder, mesh, 16 * micro_batch, "--micro-batch", micro_batch,
                          "--sequence-parallel", "off")  # sequence.py counts it
    m, tokens = plan["micro_batches"], micro_batch * SEQ
    last = len(plan["stages"]) - 1
    for stage in plan["stages"]:
        s = stage["stage"]
        layers = stage["last_layer"] - stage["first_layer"] + 1
        wide, narrow = collections.Counter(), 0
        for c in plan["collectives"]:
            if c["axes"] != ["tp"] or c["stage"] != s or c["phase"] == "update":
                continue
            require(c["kind"] == "all_reduce", f"a {c['kind']} over tp")
            if c["bytes"] == 4 * tokens * WIDTH:
                wide[c["phase"]] += c["per_step"]
            else:
                require(c["bytes"] == 4 * tokens, f"{c['bytes']} bytes over tp at stage {s}")
                narrow += c["per_step"]
        expected = {"forward": m * (2 * layers + (s == 0)), "backward": m * (2 * layers + (s == last))}
        require(dict(wide) == expected, f"stage {s}: {dict(wide)} all-reduces of 4bsd, expected {expected}")
        limit = 3 * m if s == last else 0
        require(narrow <= limit, f"stage {s}: {narrow} all-reduces of 4bs, at most {limit}")


def architecture(folder, model, per_layer):
    """Four tensor ranks, which may share key heads: all-reduces of 4bsd, one more for each end."""
    program = os.path.join(folder, "program")
    path = os.path.join(DATA, model, "config.json")
    compile_model(path, program, "--mesh", "1x1x4", "--seq", SEQ, "--global-batch", 2,
                  "--sequence-parallel", "off")
    with open(path) as f:
        width = json.load(f)["hidden_size"]
    plan = inspect(program)
    layers, counts = plan["model"]["layers"], collections.Counter()
    for c in plan["collectives"]:
        if c["phase"] == "update":
            continue
        require((c["kind"], c["axes"]) == ("all_reduce", ["tp"]), f"a {c['kind']} over {c['axes']}")
        if c["bytes"] == 4 * SEQ * width:
            counts[c["phase"]] += c["per_step"]
        else:
            require(c["bytes"] == 4 * SEQ, f"{c['bytes']} bytes over tp")
    expected = {phase: 2 * (per_layer * layers + 1) for phase in ["forward", "backward"]}
    require(dict(counts) == expected, f"{dict(counts)}, expected {expected}")


def stages(folder, schedule):
    program, plan = build(folder, "1x4x1", 8, "--schedule", schedule)
    p, m = 4, plan["micro_batches"]
    require(m == 8, f"{m} micro-batches")
    border = 4 * SEQ * WIDTH
    sent = sum(x["per_step"] for x in plan["sends"])
    require(sent == 2 * (p - 1) * m, f"{sent} messages, expected {2 * (p - 1) * m}")
    for x in plan["sends"]:
        require(x["bytes"] == border, f"a message of {x['bytes']} bytes, expected {border}")
    for stage in plan["stages"]:
        slots = m if schedule == "gpipe" else min(m, p - stage["stage"])
        require(stage["slots"] == slots, f"stage {stage['stage']} keeps {stage['slots']}, expected {slots}")
        require(stage["live_bytes"] <= stage["arena_bytes"], "more bytes live than there are")


def parameters_of(plan, stage):
    """Local elements of a stage from the configuration, padding of the vocabulary included."""
    tp = plan["mesh"]["tp"]
    d, inner = WIDTH, CONFIG.get("n_inner") or 4 * WIDTH
    layers = stage["last_layer"] - stage["first_layer"] + 1
    layer = (4 * d + 3 * (d * d + d) // tp + d * d // tp + d + (d * inner + inner) // tp +
             inner * d // tp + d)
    rows = -(-CONFIG["vocab_size"] // tp)
    first, last = stage["stage"] == 0, stage["stage"] == len(plan["stages"]) - 1
    return layers * layer + (rows * d if first or last else 0) + \
        (CONFIG["n_positions"] * d if first else 0) + (2 * d if last else 0)


def data_parallel(folder, mesh):
    program, plan = build(folder, mesh, 16, "--zero", 0)  # zero.py counts the others
    for stage in plan["stages"]:
        gradients = [c for c in plan["collectives"]
                     if c["axes"] in (["dp"], ["dp", "tp"]) and c["stage"] == stage["stage"]]
        total = sum(c["bytes"] * c["per_step"] for c in gradients)
        expected = 4 * parameters_of(plan, stage)
        require(total == expected, f"stage {stage['stage']}: {total} bytes over dp, expected {expected}")
    return f"{sum(c['per_step'] for c in plan['collectives'] if c['axes'] == ['dp'])} buckets"


def running(folder, mesh, *flags):
    program, plan = build(folder, mesh, 16, *flags)
    counted = os.path.join(folder, "counts.json")
    train(program, folder, "--data", os.path.join(OWN, "text.bin"), "--steps", 1,
          "--count-collectives", counted)
    with open(counted) as f:
        ran = json.load(f)

    def table(entries, keys):
        sums = collections.Counter()
        for e in entries:
            sums[tuple(json.dumps(e[k]) for k in keys)] += e["per_step"]
        return sums

    keys = ["kind", "axes", "stage", "phase", "bytes"]
    require(table(ran["collectives"], keys) == table(plan["collectives"], keys),
            f"collectives differ: ran {table(ran['collectives'], keys)}, "
            f"plan {table(plan['collectives'], keys)}")
    keys = ["from_stage", "to_stage", "bytes"]
    require(table(ran["sends"], keys) == table(plan["sends"], keys), "messages differ")


def origins(folder, model):
    program = os.path.join(folder, "program")
    path = os.path.join(OWN, model)
    compile_model(path, program, "--mesh", "2x2x2", "--global-batch", 8, "--seq", SEQ)
    plan = inspect(program)
    with open(path, "rb") as f:
        source = f.read()
    own = {"loss", "token count", "clip", "gradients"}
    if model.endswith(".onnx"):
        for c in plan["collectives"]:
            require(c["origin"], f"a collective without origin: {c}")
            names = c["source"]["nodes"]
            require(names or c["origin"], f"an origin without a name: {c}")
            for name in names:
                require(name.encode() in source or name in plan["parameters"] or name in own,
                        f"origin {name} is not in {model}")
    else:
        for c in plan["collectives"]:
            require(c["origin"], f"a collective without origin: {c}")


suite = Suite("counts")
for mesh in ["1x1x4", "2x2x2", "1x4x2"]:
    for micro_batch in [1, 2]:
        suite.run(f"tensor parallel, {mesh}, micro-batch {micro_batch}", tensor_parallel, mesh, micro_batch)
for model, per_layer in [("llama", 2), ("qwen2", 2), ("qwen3", 2), ("gemma3_text", 2), ("phi3", 2), ("bert", 2),
                         ("phi", 1), ("gpt_neox", 1)]:
    suite.run(f"tensor parallel, {model}: {per_layer} a layer", architecture, model, per_layer)
for schedule in ["1f1b", "gpipe"]:
    suite.run(f"messages and slots, {schedule}", stages, schedule)
for mesh in ["4", "2x2x2", "2x4x1"]:
    suite.run(f"data parallel, {mesh}", data_parallel, mesh)
for mesh, *flags in [("2x2x2",), ("8",), ("1x4x1",), ("2x2x2", "--virtual-stages", 2), ("1x2x1", "--virtual-stages", 3),
                     ("2x2x2", "--schedule", "zero-bubble"), ("1x4x1", "--schedule", "zero-bubble")]:
    suite.run(f"the executor counts the same, {' '.join(map(str, [mesh, *flags]))}", running, mesh, *flags)
for model in ["config.json", "dynamo.onnx", "torchscript.onnx"]:
    suite.run(f"origins, {model}", origins, model)
suite.finish()
