"""Loss and gradients against PyTorch in float64: every reader, every kind of mesh."""
import os

import numpy as np

from harness import (DATA, Suite, below, compile_model, gradient_errors, inputs, loss_error,
                     read_oracle, read_safetensors, require, train)

LOSS_LIMIT, GRADIENT_LIMIT = 1e-6, 2e-5


def source_names(program, folder, data):
    """Oracle's name -> name in the model's file: the parameter with the same content. Exporters
    rename; where contents repeat (zero biases) the name that ends alike decides."""
    initial = {name[len("param:"):]: value
               for name, value in train(program, folder, *inputs(data), "--steps", 0).items()
               if name.startswith("param:")}
    names = {}
    for name, value in read_safetensors(os.path.join(data, "weights.safetensors")).items():
        equal = [n for n, v in initial.items() if v.shape == value.shape and np.array_equal(v, value)]
        require(equal, f"no parameter has the content of {name}")
        names[name] = next((n for n in equal if n.endswith(name)), equal[0])
    return names


def check(folder, model, data, rows, mesh, *flags):
    program = os.path.join(folder, "program")
    compile_model(os.path.join(data, model), program, "--mesh", mesh, "--global-batch", rows,
                  "--seq", 16, *flags)
    dump = train(program, folder, *inputs(data), "--steps", 1)
    loss, gradients = read_oracle(data)
    names = source_names(program, folder, data)
    got = {name: dump["grad:" + names[name]] for name in gradients}
    worst, name = max((e, n) for n, e in gradient_errors(got, gradients).items())
    return ", ".join([below(loss_error(dump["loss"][0], loss), LOSS_LIMIT, "loss"),
                      below(worst, GRADIENT_LIMIT, f"worst gradient ({name})")])


suite = Suite("oracle")
tiny, own = os.path.join(DATA, "gpt2-tiny"), os.path.join(DATA, "gpt2")
readers = ["config.json", "dynamo.onnx", "torchscript.onnx"]
for model in readers:
    for mesh in ["1", "2", "4", "1x2x1", "1x1x4", "2x2x2"]:
        suite.run(f"2 layers, {model}, mesh {mesh}", check, model, tiny, 4, mesh)
    for mesh in ["8", "1x4x1", "1x2x4", "2x2x2"]:
        suite.run(f"own model, {model}, mesh {mesh}", check, model, own, 8, mesh)
for schedule in ["gpipe", "1f1b"]:
    suite.run(f"own model, 2 stages, {schedule}", check, "config.json", own, 8, "1x2x1",
              "--schedule", schedule)
suite.finish()
