"""Exports of models that were just initialised, whose equal tensors exporters merge: what is trained
is PyTorch's model, parameter by parameter."""
import json
import os
import struct

from export_checks import check_export
from harness import DATA, Suite, call, compile_model, require

EXPORTS = os.path.join(DATA, "exports")


def check(folder, model, mesh):
    worst, dropped = check_export(folder, model, mesh)
    return f"gradient {worst:.1e}" + (f", {dropped} zero biases dropped by the exporter" if dropped else "")


def lost_names(folder):
    """What a saved tensor is, where its file has lost the name that the program has for it."""
    program, saved = os.path.join(folder, "program"), os.path.join(folder, "saved")
    compile_model(os.path.join(DATA, "models", "llama", "dynamo-23", "model.onnx"), program, "--seq", 16)
    call([program, "--steps", 0, "--save", saved])
    with open(os.path.join(saved, "model.safetensors"), "rb") as f:
        header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
    layouts = json.loads(header.pop("__metadata__")["source_layout"])
    require(set(layouts) == {name for name in header if name.startswith("val_")}, f"{sorted(layouts)}")
    # The second operand of a product has the rows that it sums over: 32 of the head's.
    head = max(layouts, key=lambda name: int(name[4:]))
    require(layouts[head] == "operand 1 of node 'node_linear_14' (MatMul)" and header[head]["shape"] == [32, 256],
            f"{head}: {layouts[head]}")


suite = Suite("exports")
for architecture in sorted(os.listdir(EXPORTS)):
    for file in sorted(os.listdir(os.path.join(EXPORTS, architecture))):
        for mesh in ["1", "2x2x2", "1x4x2"] if file.endswith(".onnx") else []:
            suite.run(f"{architecture}/{file} on {mesh}", check, os.path.join(EXPORTS, architecture, file), mesh)
suite.run("tensors without a name", lost_names)
suite.finish()
