"""Whether a program that was made from an export trains PyTorch's model, parameter by parameter.

An exporter may store equal tensors once, drop zero biases, rename and transpose. The parameters of
the program are found by their values at the start; where many are equal (every norm of a model that
was just initialised), by name, and if the file has lost the names by the order of their uses.
"""
import json
import os

import numpy as np

from harness import (below, compile_model, gradient_errors, inputs, inspect, loss_error, read_oracle, require, train)

LOSS_LIMIT, GRADIENT_LIMIT = 1e-6, 2e-5
# Ends of names of parameters of which an export may hold a function, or rows that are repeated.
FOLDED = ("A_log", "token_type_embeddings.weight", "position_embeddings.weight")


def order(name):
    """NAME, NAME#2, ... in the order of their uses."""
    base, _, use = name.partition("#")
    return base, int(use or 1)


def table_of(value, found):
    """The table `value` if `found` is its first rows, which an exporter looked up; else None."""
    table = value[0] if value.ndim == 3 and len(value) == 1 else value
    rows = table.ndim == 2 and found.ndim == 3 and np.array_equal(found[0], table[:found.shape[1]])
    return table if rows else None


def restore(value, found, array):
    """`array`, which lies as `found` does, as PyTorch's parameter of start `value` lies: transposed, or
    with more dims of size 1; the scale 1 + w that some norms compute, whose gradient is that of w; or the
    first rows of a table of positions, which an exporter looked up. None if `found` is not that parameter."""
    if np.array_equal(found, value) or value.ndim == 1 and np.array_equal(found, 1 + value):
        return array
    if value.ndim == 2 and np.array_equal(found.T, value):
        return array.T
    if found.shape != value.shape and [d for d in found.shape if d > 1] == [d for d in value.shape if d > 1] \
            and np.array_equal(found.ravel(), value.ravel()):
        return array.reshape(value.shape)
    table = table_of(value, found)
    if table is not None:
        return np.pad(array[0], [(0, len(table) - found.shape[1]), (0, 0)]).reshape(value.shape)
    return None


def groups(weights, initial):
    """Pairs of lists: parameters of PyTorch with one content, and those of the program."""
    left, free, result = dict(weights), dict(initial), []
    while left:
        first = next(iter(left.values()))
        same = [n for n, v in left.items() if np.array_equal(v, first)]
        found = sorted((n for n, v in free.items() if restore(first, v, v) is not None), key=order)
        for name in same:
            del left[name]
        for name in found:
            del free[name]
        result.append((same, found))
    require(not free, f"parameters that PyTorch does not have: {sorted(free)}")
    return result


def pair(same, found, weights, fits, folded):
    """PyTorch's name -> the program's, within one group; None where an exporter dropped a zero.
    `fits` says whether a gradient of the program is that of a parameter; `folded` that the compiler
    has said that there are constants in place of parameters."""
    if folded and not found and all(n.endswith(FOLDED) for n in same):
        return dict.fromkeys(same)
    zeros = [n for n in same if n.endswith("bias") and not weights[n].any()]
    require(len(same) - len(zeros) <= len(found) <= len(same),
            f"{len(same)} parameters with one content are {len(found)}: {same[:3]} ... are {found[:3]} ...")
    named = {n: next((f for f in found if f.endswith(n)), None) for n in same}
    if len(found) == len(same) and all(named.values()) and len(set(named.values())) == len(same):
        return named
    names, at, spare = dict.fromkeys(same), 0, len(same) - len(found)
    for name in same:
        if at < len(found) and (not spare or name not in zeros or fits(name, found[at])):
            names[name], at = found[at], at + 1
        else:
            spare -= 1
    return names


def sizes(draw, mesh):
    """A fixed batch holds two rows, on all data-parallel ranks together."""
    replicas = int(mesh.split("x")[0]) if "x" in mesh else 1
    micro = 1 if 0 in draw["dynamic"] else 2 // replicas
    return ["--seq", draw["length"], "--micro-batch", micro, "--global-batch", 8]


def check_export(folder, model, mesh):
    """Compiles, trains one step, and holds all against PyTorch; returns the worst error and how many
    zero biases the exporter dropped."""
    place = os.path.dirname(model)
    with open(os.path.join(place, "draw.json")) as f:
        draw = json.load(f)
    weights = dict(np.load(os.path.join(place, "weights.npz")))
    program = os.path.join(folder, "program")
    said = compile_model(model, program, "--mesh", mesh, *sizes(draw, mesh)).stderr
    about = inspect(program)
    start = train(program, folder, *inputs(place), "--steps", 0)
    # A tied head is dumped under its own name too.
    initial = {n: start["param:" + n] for n in about["parameters"]}
    dump = train(program, folder, *inputs(place), "--steps", 1)
    loss, gradients = read_oracle(place)
    counted, wanted = about["model"]["parameters"], draw["parameters"]
    merged = draw["merged_nodes"] if model.endswith("dynamo.onnx") else []
    for name, twin in merged:
        # Two equal nodes of equal inputs are one in the file: its parameters have both gradients.
        gradients[name] = gradients[name] + gradients.pop(twin)
        wanted -= weights.pop(twin).size

    def gradient(name, ours):
        return restore(weights[name], initial[ours], dump["grad:" + ours])

    def fits(name, ours):
        errors = gradient_errors({**gradients, name: gradient(name, ours)}, gradients)
        return errors[name] <= GRADIENT_LIMIT

    names = {}
    for same, found in groups(weights, initial):
        names.update(pair(same, found, weights, fits, "not trained" in said))
    # The program knows some by PyTorch's names too, and dumps them under both.
    for name in names:
        also = [key[6:] for key in start if key.startswith("param:") and key.endswith("." + name)]
        if names[name] and len(also) == 1 and restore(weights[name], start["param:" + also[0]], weights[name]) is not None:
            names[name] = also[0]
            initial[also[0]] = start["param:" + also[0]]
    # Rows of a table that the exporter looked up are no longer the parameter by its name.
    rows = [n for n, ours in names.items() if ours and not ours.endswith(n) and table_of(weights[n], initial[ours]) is not None]
    folds = any(names[n] is None for n in names if n.endswith(FOLDED)) or \
        bool(draw["names"] and not model.endswith("torchscript.onnx") and (merged or rows))
    require(folds == ("not trained" in said), f"constants in place of parameters: {said}")
    dropped = [name for name, ours in names.items() if ours is None]
    missing = sum(weights[n].size - (initial[ours].size if ours else 0) for n, ours in names.items())
    require(counted + missing == wanted,
            f"{counted} parameters, {missing} in zero biases, unused positions and constants; PyTorch has {wanted}")
    below(loss_error(dump["loss"][0], loss), LOSS_LIMIT, "loss")
    got = {name: gradient(name, ours) for name, ours in names.items() if ours is not None}
    worst, name = max((e, n) for n, e in gradient_errors({**gradients, **got}, gradients).items())
    below(worst, GRADIENT_LIMIT, f"gradient of {name}")
    return worst, len(dropped)
