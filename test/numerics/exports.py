"""Exports of models that were just initialised, whose equal tensors exporters merge: what is trained
is PyTorch's model, parameter by parameter."""
import os

from export_checks import check_export
from harness import DATA, Suite

EXPORTS = os.path.join(DATA, "exports")


def check(folder, model, mesh):
    worst, dropped = check_export(folder, model, mesh)
    return f"gradient {worst:.1e}" + (f", {dropped} zero biases dropped by the exporter" if dropped else "")


suite = Suite("exports")
for architecture in sorted(os.listdir(EXPORTS)):
    for file in sorted(os.listdir(os.path.join(EXPORTS, architecture))):
        for mesh in ["1", "2x2x2", "1x4x2"] if file.endswith(".onnx") else []:
            suite.run(f"{architecture}/{file} on {mesh}", check, os.path.join(EXPORTS, architecture, file), mesh)
suite.finish()
