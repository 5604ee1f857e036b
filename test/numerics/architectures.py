"""Every architecture of config.json: loss and gradients against PyTorch in float64.

The small models of test/data/make/architectures.py, on one rank and cut every way at once; some have one
key head for two tensor ranks, or weights in bfloat16, float16, float64 or two files.
"""
import json
import os
import struct
import time

import numpy as np

from harness import (DATA, Suite, below, call, compile_model, gradient_errors, inputs, inspect,
                     loss_error, read_oracle, read_safetensors, require, train, write_safetensors)

DECODER = ["attention x2", "rotary x4", "mlp x2", "rms norm x5", "embedding x1", "head x1"]
ENCODER = ["attention x2", "mlp x2", "layer norm x6", "embedding x1", "head x1"]


def with_norms(norms, blocks=DECODER):
    return [norms if "norm" in b else b for b in blocks]


def with_mixture(*blocks):
    return [b for block in DECODER for b in (blocks if "mlp" in block else [block])]


# Parameters, layers and blocks of each small model.
MODELS = {
    "llama": (14088, 2, DECODER),
    "mistral": (12936, 2, DECODER),
    "qwen2": (11040, 2, DECODER),
    "qwen3": (12968, 2, with_norms("rms norm x9")),
    "gpt_neox": (17280, 2, with_norms("layer norm x5")),
    "phi": (16211, 2, with_norms("layer norm x7")),
    "phi3": (16736, 2, DECODER),
    "gemma2": (11424, 2, with_norms("rms norm x9")),
    "gemma3_text": (12912, 3, ["attention x3", "rotary x6", "mlp x3", "rms norm x19",
                               "embedding x1", "head x1"]),
    "olmo2": (9168, 2, with_norms("rms norm x9")),
    "nemotron": (12080, 2, with_norms("layer norm x5")),
    "mixtral": (34824, 2, with_mixture("mixture x2")),
    "qwen2_moe": (24024, 2, with_mixture("mlp x2", "mixture x2")),
    "qwen3_moe": (25704, 3, ["attention x3", "rotary x6", "mlp x1", "mixture x2", "rms norm x13",
                                        "embedding x1", "head x1"]),
    # A dense layer, then those with an expert that all tokens take; both vectors of attention have norms.
    "deepseek_v2": (20640, 2, with_norms("rms norm x7", with_mixture("mlp x2", "mixture x1"))),
    "deepseek_v3": (31012, 3, ["attention x3", "rotary x6", "mlp x3", "mixture x2", "rms norm x13",
                                            "embedding x1", "head x1"]),
    "gpt_oss": (23120, 2, with_mixture("mixture x2")),
    "bert": (11859, 2, ENCODER),
    # Positions that count the tokens before them are looked up too.
    "roberta": (11859, 2, [b.replace("embedding x1", "embedding x2") for b in ENCODER]),
    "distilbert": (11811, 2, ENCODER),
}
# Published configs, read within a second; twice that is allowed for a slow machine.
PUBLISHED = {
    "Llama 2 7B": (6_738_415_616, 32, {}),
    "Llama 2 70B": (68_976_648_192, 80, dict(
        hidden_size=8192, intermediate_size=28672, num_hidden_layers=80, num_attention_heads=64,
        num_key_value_heads=8)),
    "Llama 3.1 405B": (405_853_388_800, 126, dict(
        hidden_size=16384, intermediate_size=53248, num_hidden_layers=126, num_attention_heads=128,
        num_key_value_heads=8, vocab_size=128256)),
}
MIXTURES = ["mixtral", "qwen2_moe", "qwen3_moe", "deepseek_v2", "deepseek_v3", "gpt_oss"]
# Ranks of experts among those of the batch, of tokens and of features, and beside stages.
MESHES_OF_EXPERTS = ["dp=2,ep=2", "dp=4,ep=4", "dp=2,tp=2,ep=4,etp=1", "tp=2,etp=2", "dp=2,tp=2,ep=2,etp=2", "dp=2,cp=2,tp=2,ep=8"]
LOSS_LIMIT, GRADIENT_LIMIT = 1e-6, 2e-5


def gradients_of(dump, expected):
    got = {}
    for name in expected:
        require("grad:" + name in dump, f"no gradient for {name}: there are "
                f"{sorted(n for n in dump if n.startswith('grad:'))[:6]} ...")
        got[name] = dump["grad:" + name]
    return got


def check(folder, name, mesh, *flags):
    data, program = os.path.join(DATA, name), os.path.join(folder, "program")
    rows, length = np.load(os.path.join(data, "input_ids.npy")).shape
    compile_model(os.path.join(data, "config.json"), program, "--mesh", mesh, "--global-batch", rows,
                  "--seq", length, *flags)
    dump = train(program, folder, *inputs(data), "--steps", 1)
    loss, expected = read_oracle(data)
    errors = gradient_errors(gradients_of(dump, expected), expected)
    worst, where = max((e, n) for n, e in errors.items())
    return ", ".join([below(loss_error(dump["loss"][0], loss), LOSS_LIMIT, "loss"),
                      below(worst, GRADIENT_LIMIT, f"worst gradient ({where})")])


def described(folder, name):
    parameters, layers, blocks = MODELS[name]
    model = inspect(os.path.join(DATA, name, "config.json"))
    require(model["constants"] == [], f"constants {model['constants']}")
    got = model["model"]
    require((got["parameters"], got["layers"]) == (parameters, layers),
            f"{got['parameters']} parameters, {got['layers']} layers")
    require(got["blocks"] == blocks, f"blocks {got['blocks']}")


def published(folder, parameters, layers, fields):
    config = os.path.join(folder, "config.json")
    with open(config, "w") as f:
        json.dump(dict(fields, model_type="llama"), f)
    start = time.monotonic()
    got = inspect(config)["model"]
    took = time.monotonic() - start
    require((got["parameters"], got["layers"]) == (parameters, layers),
            f"{got['parameters']} parameters, {got['layers']} layers")
    require(took < 2, f"read in {took:.2f} s")
    return f"{took:.2f} s"


def inference(folder, name, mesh):
    """The loss of the logits of an --infer program is the oracle's."""
    data, program = os.path.join(DATA, name), os.path.join(folder, "program")
    ids = os.path.join(data, "input_ids.npy")
    rows, length = np.load(ids).shape
    compile_model(os.path.join(data, "config.json"), program, "--infer", "--mesh", mesh, "--precision", "fp32",
                  "--dim", f"batch={rows}", "--dim", f"sequence={length}")
    call([program, "--input", f"input_ids={ids}", "--output", os.path.join(folder, "out")])
    logits = np.load(os.path.join(folder, "out", "logits.npy")).astype(np.float64)
    labels = np.load(os.path.join(data, "labels.npy"))
    logits -= logits.max(axis=-1, keepdims=True)
    logs = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
    picked = np.take_along_axis(logs, np.maximum(labels, 0)[..., None], axis=-1)[..., 0]
    loss = -picked[labels >= 0].mean()
    return below(loss_error(loss, read_oracle(data)[0]), LOSS_LIMIT, "loss")


def types(path):
    """Name -> element type of a safetensors file."""
    with open(path, "rb") as f:
        header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
    return {name: entry["dtype"] for name, entry in header.items() if name != "__metadata__"}


def stored_types(folder, name, kind):
    """A checkpoint of another type: its own numbers come out as float32, and load again."""
    data, program = os.path.join(DATA, name), os.path.join(folder, "program")
    compile_model(os.path.join(data, "config.json"), program, "--seq", 16, "--global-batch", 8)
    stored = types(os.path.join(data, "weights.safetensors"))
    require(set(stored.values()) == {kind}, f"the test's weights are {stored}, not {kind}")
    saved = os.path.join(folder, "saved")
    train(program, folder, *inputs(data), "--steps", 0, "--save", saved)
    out = types(os.path.join(saved, "model.safetensors"))
    require(set(stored) <= set(out) and set(out.values()) == {"F32"}, f"saved {out}")
    first = train(program, folder, *inputs(data), "--steps", 1)
    again = train(program, folder, *inputs(data), "--steps", 1, "--weights", saved)
    for tensor in first:
        require(np.array_equal(first[tensor], again[tensor]), f"{tensor} differs after a round trip")


def older_names(folder, name, part, older):
    """A program takes a checkpoint of an older version of its model, and saves by today's names."""
    data, program = os.path.join(DATA, name), os.path.join(folder, "program")
    compile_model(os.path.join(data, "config.json"), program, "--seq", 16, "--global-batch", 8, "--weights", "random")
    today = os.path.join(data, "weights.safetensors")
    tensors = {n.replace(part, older): v for n, v in read_safetensors(today).items()}
    require(any(older in n for n in tensors), f"no tensor is called {part}")
    other, saved = os.path.join(folder, "other.safetensors"), os.path.join(folder, "saved")
    write_safetensors(other, tensors)
    train(program, folder, *inputs(data), "--steps", 0, "--weights", other, "--save", saved)
    out, expected = read_safetensors(os.path.join(saved, "model.safetensors")), read_safetensors(today)
    require(set(out) == set(expected), f"saved {sorted(set(out) ^ set(expected))}")
    for tensor in expected:
        require(np.array_equal(out[tensor], expected[tensor]), f"{tensor} differs")


suite = Suite("architectures")
for name in MODELS:
    suite.run(f"{name} is what it is", described, name)
    for mesh in ["1", "2x2x2"]:
        suite.run(f"{name}, mesh {mesh}", check, name, mesh)
    suite.run(f"{name}, one run on 2x1x2", inference, name, "2x1x2")
for name in MIXTURES:
    for mesh in MESHES_OF_EXPERTS:
        suite.run(f"{name}, mesh {mesh}", check, name, mesh)
    for zero in [0, 1, 3]:
        suite.run(f"{name}, mesh 2x2x2, ep 2, ZeRO {zero}", check, name, "2x2x2", "--ep", 2, "--zero", zero)
for title, expected in PUBLISHED.items():
    suite.run(title, published, *expected)
for name in ["llama", "gemma2", "gpt_neox", "bert"]:
    suite.run(f"{name}, not raised, mesh 2x1x2", check, name, "2x1x2", "--raise", "off")
for name, kind in [("qwen2", "BF16"), ("phi3", "F16"), ("olmo2", "F64")]:
    suite.run(f"weights of {kind}", stored_types, name, kind)
suite.run("names of older checkpoints", older_names, "gpt_neox", "lm_head.", "embed_out.")
suite.finish()
