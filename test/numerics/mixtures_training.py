"""Exported mixtures are trained: loss and gradients, those of the router too, against PyTorch in float64.

The weights of the exports, which test/data/models/mixtral/weights.safetensors has under the names of
transformers, say which parameter is which: exporters rename and transpose.
"""
import os

import numpy as np

from harness import (DATA, Suite, below, compile_model, gradient_errors, loss_error, read_safetensors,
                     require, train)

LOSS_LIMIT, GRADIENT_LIMIT = 1e-6, 2e-5
MODELS = os.path.join(DATA, "models")
ROWS, SEQ = 4, 16


def under_own_names(initial, gradients, weights):
    """Gradients under the names of `weights`, each found by the only parameter of that content."""
    named = {}
    for name, weight in weights.items():
        same = [(n, turned) for n, value in initial.items() for turned in (False, True)
                if not (turned and value.ndim < 2)
                and np.array_equal(np.swapaxes(value, -1, -2) if turned else value, weight)]
        if weight.ndim == 1 and len(same) > 1:  # norms of ones
            same = [(n, turned) for n, turned in same if n == name]
        require(len(same) == 1, f"{name} is {[n for n, _ in same] or 'no parameter'}")
        n, turned = same[0]
        named[name] = np.swapaxes(gradients[n], -1, -2) if turned else gradients[n]
    return named


def check(folder, architecture, export, mesh, *flags):
    place = os.path.join(MODELS, architecture)
    stored = np.load(os.path.join(place, "train.npz"))
    given = []
    for name in ("input_ids", "labels"):
        path = os.path.join(folder, name + ".npy")
        np.save(path, stored[name])
        given += ["--input", f"{name}={path}"]
    program = os.path.join(folder, "program")
    compile_model(os.path.join(place, export, "model.onnx"), program, "--mesh", mesh, "--global-batch", ROWS,
                  "--seq", SEQ, *flags)
    start, end = (train(program, folder, *given, "--steps", steps) for steps in (0, 1))
    of = lambda dump, kind: {n[len(kind):]: v for n, v in dump.items() if n.startswith(kind)}
    got = under_own_names(of(start, "param:"), of(end, "grad:"), read_safetensors(os.path.join(place, "weights.safetensors")))
    expected = {n[len("grad."):]: stored[n] for n in stored.files if n.startswith("grad.")}
    require(any(n.endswith("mlp.gate.weight") and np.any(g) for n, g in expected.items()), "no gradient of a router")
    worst, name = max((e, n) for n, e in gradient_errors(got, expected).items())
    return ", ".join([below(loss_error(end["loss"][0], stored["loss"]), LOSS_LIMIT, "loss"),
                      below(worst, GRADIENT_LIMIT, f"worst gradient ({name})")])


suite = Suite("mixtures_training")
for export in ("dynamo-18-batched", "hf-23-grouped-mask"):
    for mesh, *flags in [("1",), ("2x2x2",), ("2x2x2", "--ep", 2), ("dp=2,ep=2",)]:
        suite.run(f"mixtral/{export} on {mesh} {' '.join(map(str, flags))}".strip(), check, "mixtral", export, mesh, *flags)
suite.finish()
