"""Any mesh is the same program: initial weights bit for bit, losses within 1e-5."""
import json
import os
import subprocess

import numpy as np

from harness import (DATA, Suite, below, compile_model, gradient_errors, require, train)

TEXT = os.path.join(DATA, "gpt2", "text.bin")


def config(folder, **changes):
    with open(os.path.join(DATA, "gpt2", "config.json")) as f:
        content = json.load(f)
    content.update(changes)
    path = os.path.join(folder, "config.json")
    with open(path, "w") as f:
        json.dump(content, f)
    return path


def run(folder, model, mesh, name, rows, steps, *flags):
    program = os.path.join(folder, name)
    compile_model(model, program, "--mesh", mesh, "--global-batch", rows, "--seq", 16, *flags)
    return train(program, folder, "--data", TEXT, "--seed", 7, "--steps", steps)


def same_program(folder, mesh, rows, changes):
    model = config(folder, **changes)
    one, many = ("1", "one"), (mesh, "many")
    first, start = run(folder, model, *one, rows, 10), None
    second = run(folder, model, *many, rows, 10)
    for kind in (one, many):
        dump = run(folder, model, *kind, rows, 0)
        names = sorted(n for n in dump if n.startswith("param:"))
        require(names, "no parameters in the dump")
        if start is None:
            start = dump
            continue
        for name in names:
            require(np.array_equal(start[name], dump[name]), f"{name} differs at the start")
    error = float(np.max(np.abs(second["loss"] - first["loss"]) / np.abs(first["loss"])))
    return below(error, 1e-5, "losses of 10 steps")


def same_bits(folder, mesh):
    model = config(folder)
    dumps = [run(folder, model, mesh, "a", 8, 5)]
    # The same again while something else keeps the machine busy.
    busy = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(2)]
    try:
        dumps.append(run(folder, model, mesh, "b", 8, 5))
    finally:
        for process in busy:
            process.kill()
    for name in dumps[0]:
        require(np.array_equal(dumps[0][name], dumps[1][name]), f"{name} differs between two runs")


def micro_batches(folder):
    model = config(folder)
    dumps = [run(folder, model, "1", f"m{size}", 32, 1, "--micro-batch", size) for size in (32, 8, 1)]
    gradients = [{n: g for n, g in d.items() if n.startswith("grad:")} for d in dumps]
    worst = max(max(gradient_errors(g, gradients[0]).values()) for g in gradients[1:])
    return below(worst, 1e-5, "gradients of 1 x 32, 4 x 8 and 32 x 1")


suite = Suite("meshes")
for mesh, rows, changes in [("8", 8, {}), ("1x4x1", 8, {}), ("1x1x4", 8, {}), ("2x2x2", 8, {}),
                            ("4x2", 8, {"vocab_size": 257}), ("1x3x1", 8, {"n_layer": 7}),
                            ("3x1x1", 6, {})]:
    suite.run(f"mesh {mesh} {changes or ''}", same_program, mesh, rows, changes)
suite.run("mesh 2x2x2 twice, the second under load", same_bits, "2x2x2")
suite.run("mesh 1 twice, the second under load", same_bits, "1")
suite.run("micro-batch sizes", micro_batches)
suite.finish()
