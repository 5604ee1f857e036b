"""Every architecture of config.json: loss and gradients against PyTorch in float64.

The small models of test/data/make/architectures.py, on one rank and cut every way at once; some have one
key head for two tensor ranks, or weights in bfloat16, float16, float64 or two files.
"""
import json
import os
import struct

import numpy as np

from harness import (DATA, Suite, below, compile_model, gradient_errors, inputs, inspect, loss_error,
                     read_oracle, read_safetensors, require, train)

NAMES = ["llama", "mistral", "qwen2", "qwen3", "gpt_neox", "phi", "phi3", "gemma2", "gemma3_text",
         "olmo2", "bert", "roberta", "distilbert"]
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


suite = Suite("architectures")
for name in NAMES:
    for mesh in ["1", "2x2x2"]:
        suite.run(f"{name}, mesh {mesh}", check, name, mesh)
for name in ["llama", "gemma2", "gpt_neox", "bert"]:
    suite.run(f"{name}, not raised, mesh 2x1x2", check, name, "2x1x2", "--raise", "off")
for name, kind in [("qwen2", "BF16"), ("phi3", "F16"), ("olmo2", "F64")]:
    suite.run(f"weights of {kind}", stored_types, name, kind)
suite.finish()
