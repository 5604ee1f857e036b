"""Every exported model of test/data/models runs with --infer as its exporter meant.

A file is imported (it compiles), raised to blocks (its layers are folded, each with
an attention and a norm) and equal (each output, on each mesh, to expected.npz).
"""
import json
import os
import sys

import numpy as np

import onnx_lite
from harness import (DATA, LLMC, Failure, Suite, below, call, inspect, loss_error, read_oracle,
                     require)

MODELS = os.path.join(DATA, "models")
# Largest error, of the largest magnitude of the output, by the type of the file's weights, in which
# the program computes.
LIMITS = {"fp32": 1e-4, "fp16": 5e-3, "bf16": 3e-2}
MESHES = ["1", "1x1x2", "2x1x1", "1x2x1", "2x2x1", "2x1x2"]


def bind(model, arrays):
    """--dim for each symbol of the inputs, from the shapes of their arrays."""
    sizes = {}
    for name, dims in onnx_lite.input_dims(model).items():
        for symbol, size in zip(dims, arrays[name].shape):
            if isinstance(symbol, str) and symbol.isidentifier():
                require(sizes.setdefault(symbol, size) == size, f"{symbol} has two sizes")
    return [flag for symbol, size in sizes.items() for flag in ("--dim", f"{symbol}={size}")]


def seen(arrays, name, value):
    """Where the value belongs to no masked token; the tokens are dim 1, in a cache dim 2."""
    shown = np.ones(value.shape, bool)
    mask = arrays.get("attention_mask")
    if mask is None or value.ndim < 3:
        return shown
    dim = 1 if value.ndim == 3 else 2
    tokens = mask[:, -value.shape[dim]:] != 0
    return shown & tokens.reshape([len(tokens)] + [1] * (dim - 1) + [-1] + [1] * (value.ndim - dim - 1))


def error(got, expected, where):
    if not where.any():
        return 0.0
    got, expected = got.astype(np.float64), expected.astype(np.float64)
    require(np.isfinite(got[where]).all(), "it is not finite")
    return float(np.max(np.abs(got - expected)[where]) / np.max(np.abs(expected)))


def heads(folder):
    with open(os.path.join(MODELS, folder.split("/")[0], "config.json")) as f:
        config = json.load(f)
    return config.get("num_attention_heads", config.get("n_head"))


class Case:
    """One file with one vector: `suffix` is "" or "_decode"."""

    def __init__(self, folder, suffix):
        self.folder, self.suffix = folder, suffix
        self.model = os.path.join(MODELS, folder, "model.onnx")
        self.arrays = dict(np.load(os.path.join(MODELS, folder, f"inputs{suffix}.npz")))
        self.expected = dict(np.load(os.path.join(MODELS, folder, f"expected{suffix}.npz")))
        self.type = folder[-4:] if folder.endswith(("fp16", "bf16")) else "fp32"
        self.limit = LIMITS[self.type]
        self.imported = self.raised = False
        self.equal, self.worst, self.masked = [], 0.0, 0.0

    def compile(self, folder, mesh, *flags):
        program = os.path.join(folder, "program")
        call([LLMC, "compile", self.model, "--infer", "--mesh", mesh, "-o", program,
              *bind(self.model, self.arrays), *flags])
        return program

    def raises(self, folder, mesh):
        program = self.compile(folder, mesh)
        self.imported = True
        said = inspect(program)
        self.check_bindings(said)
        found = said["model"]
        kinds = dict(block.rsplit(" x", 1) for block in found["blocks"])
        self.raised = found["layers"] > 1 and kinds.get("attention") == str(found["layers"])
        return program

    def check_bindings(self, said):
        """What inspect says of inputs and outputs is what the exporter made."""
        require(said["mode"] == "infer", f"the mode is {said['mode']}")
        for kind, arrays in (("inputs", self.arrays), ("outputs", self.expected)):
            found = {one["name"]: (one["dtype"], tuple(one["shape"])) for one in said[kind]}
            wanted = {name: ("int64" if value.dtype.kind == "i" else "float32", value.shape)
                      for name, value in arrays.items()}
            require(found == wanted, f"{kind} are {found}, expected {wanted}")

    def inspect_model(self, folder):
        self.check_bindings(json.loads(call([LLMC, "inspect", self.model, "--infer", "--json",
                                             *bind(self.model, self.arrays)]).stdout))

    def outputs(self, folder, program, *flags):
        given, results = [], os.path.join(folder, "results")
        for name, value in self.arrays.items():
            path = os.path.join(folder, name + ".npy")
            np.save(path, value)
            given += ["--input", f"{name}={path}"]
        call([program, *given, "--output", results, *flags])
        return {name: np.load(os.path.join(results, name + ".npy")) for name in self.expected}

    def compare(self, folder, program):
        """The largest error and that at masked tokens."""
        got = self.outputs(folder, program)
        worst = masked = 0.0
        for name, expected in self.expected.items():
            require(got[name].shape == expected.shape,
                    f"{name} has the shape {got[name].shape}, expected {expected.shape}")
            where = seen(self.arrays, name, expected)
            try:
                worst = max(worst, error(got[name], expected, where))
                masked = max(masked, error(got[name], expected, ~where))
            except Failure as problem:
                raise Failure(f"{name}: {problem}") from problem
        require(worst <= self.limit, f"the error is {worst:.1e}, limit {self.limit:.0e}")
        return worst, masked

    def run_experts(self, folder, mesh, *flags):
        """Ranks share out the experts."""
        program = self.compile(folder, mesh, *flags)
        blocks = inspect(program)["model"]["blocks"]
        require(any(block.startswith("mixture") for block in blocks), f"blocks are {blocks}")
        worst, _ = self.compare(folder, program)
        return f"error {worst:.1e}"

    def run(self, folder, mesh):
        worst, masked = self.compare(folder, self.raises(folder, mesh))
        self.worst, self.masked = max(self.worst, worst), max(self.masked, masked)
        self.equal.append(mesh)
        return f"error {worst:.1e}" + (f", at masked tokens {masked:.1e}" if masked else "")

    def run_unraised(self, folder, mesh):
        worst, _ = self.compare(folder, self.compile(folder, mesh, "--raise", "off"))
        return f"error {worst:.1e}"

    def row(self):
        mark = lambda good: "yes" if good else "no"
        equal = "yes" if self.equal == MESHES else "not on " + " ".join(
            mesh for mesh in MESHES if mesh not in self.equal)
        return (f"  {self.folder + self.suffix:38} {mark(self.imported):9} {mark(self.raised):7} "
                f"{self.worst:8.1e} {self.masked:8.1e}  {equal}")


def has_experts(folder):
    with open(os.path.join(MODELS, folder.split("/")[0], "config.json")) as f:
        return any("experts" in field for field in json.load(f))


def kinds(folder, past, mesh):
    """Scalars, booleans, integers, empty arrays, constants, outputs that are inputs."""
    given, data = [], os.path.join(DATA, "kinds")
    arrays, expected = (dict(np.load(os.path.join(data, f"{what}_{past}.npz")))
                        for what in ("inputs", "expected"))
    program, results = os.path.join(folder, "program"), os.path.join(folder, "results")
    model = os.path.join(data, "model.onnx")
    call([LLMC, "compile", model, "--infer", "--mesh", mesh, "-o", program, *bind(model, arrays)])
    for name, value in arrays.items():
        np.save(os.path.join(folder, name + ".npy"), value)
        given += ["--input", f"{name}={folder}/{name}.npy"]
    call([program, *given, "--output", results])
    require(sorted(os.listdir(results)) == sorted(name + ".npy" for name in expected),
            f"the outputs are {sorted(os.listdir(results))}")
    for name, value in expected.items():
        got = np.load(os.path.join(results, name + ".npy"))
        require((got.dtype, got.shape) == (value.dtype, value.shape),
                f"{name} is {got.dtype} {got.shape}, expected {value.dtype} {value.shape}")
        if value.dtype.kind == "f":
            below(error(got, value, np.ones(value.shape, bool)), 1e-6, name)
        else:
            require((got == value).all(), f"{name} differs")


# Bytes that the ranks of test/data/annotated add up, and whose decision that was.
ANNOTATED = {"columns": [(192, "annotation"), (192, "tensor")],
             "rows": [(288, "annotation"), (384, "annotation")],
             "whole": [(288, "tensor"), (384, "tensor")]}


def annotated(folder, name):
    """A graph that says how two devices share it is shared so."""
    data, results = os.path.join(DATA, "annotated"), os.path.join(folder, "results")
    program, ids = os.path.join(folder, "program"), os.path.join(folder, "ids.npy")
    np.save(ids, np.load(os.path.join(data, "inputs.npz"))["ids"])
    call([LLMC, "compile", os.path.join(data, name + ".onnx"), "--infer", "--mesh", "1x1x2",
          "--dim", "b=2,s=3", "-o", program])
    found = sorted((c["bytes"], c["source"]["tactic"]) for c in inspect(program)["collectives"])
    require(found == ANNOTATED[name], f"the ranks add up {found}, expected {ANNOTATED[name]}")
    call([program, "--input", f"ids={ids}", "--output", results])
    expected = np.load(os.path.join(data, "expected.npz"))["y"]
    got = np.load(os.path.join(results, "y.npy"))
    return below(error(got, expected, np.ones(expected.shape, bool)), 1e-6, "error")


def loss_of(folder, name, mesh):
    """A config's logits give the loss that PyTorch computed in float64."""
    data, results = os.path.join(DATA, name), os.path.join(folder, "results")
    ids, labels = (np.load(os.path.join(data, n + ".npy")) for n in ("input_ids", "labels"))
    program = os.path.join(folder, "program")
    call([LLMC, "compile", os.path.join(data, "config.json"), "--infer", "--mesh", mesh, "--precision", "fp32",
          "--dim", "batch={},sequence={}".format(*ids.shape), "-o", program])
    call([program, "--input", "input_ids=" + os.path.join(data, "input_ids.npy"), "--output", results])
    logits = np.load(os.path.join(results, "logits.npy")).astype(np.float64)
    top = logits.max(-1, keepdims=True)
    logits = logits - top - np.log(np.exp(logits - top).sum(-1, keepdims=True))
    loss = -np.mean([logits[row, at, labels[row, at]] for row, at in np.argwhere(labels != -100)])
    return below(loss_error(loss, read_oracle(data)[0]), 1e-6, "error of the loss")


def main():
    suite = Suite("infer")
    folders = sorted(os.path.relpath(folder, MODELS) for folder, _, files in os.walk(MODELS)
                     if "model.onnx" in files and "inputs.npz" in files)
    cases = [Case(folder, suffix) for folder in folders for suffix in ("", "_decode")
             if os.path.exists(os.path.join(MODELS, folder, f"inputs{suffix}.npz"))]
    for past in (0, 2):
        for mesh in ["1", "4x1x1", "1x1x2", "2x1x2"]:
            suite.run(f"every kind of input and output, past {past}, on {mesh}", kinds, past, mesh)
    for name in ANNOTATED:
        suite.run(f"annotated {name} on 1x1x2", annotated, name)
    for name in sorted(os.listdir(DATA)):
        if all(os.path.exists(os.path.join(DATA, name, f)) for f in ("config.json", "oracle.npz", "labels.npy")):
            for mesh in MESHES[:2]:
                suite.run(f"{name}/config.json on {mesh}", loss_of, name, mesh)
    for case in cases:
        for mesh in MESHES:
            suite.run(f"{case.folder}{case.suffix} on {mesh}", case.run, mesh)
        for mesh in ["2x1x1", "2x1x2"] if has_experts(case.folder) else []:
            suite.run(f"{case.folder}{case.suffix} on {mesh} --ep 2", case.run_experts, mesh, "--ep", "2")
        suite.run(f"{case.folder}{case.suffix} inspected", case.inspect_model)
        for mesh in ["2x1x2", "1x1x4"] if heads(case.folder) % 4 == 0 else ["2x1x2"]:
            suite.run(f"{case.folder}{case.suffix} on {mesh}, raise off", case.run_unraised, mesh)
    if not suite.only:
        print(f"  {'file':38} imported  blocks  error    masked    equal on all meshes")
        print("\n".join(case.row() for case in cases))
        count = lambda what: sum(bool(what(case)) for case in cases)
        print(f"  of {len(cases)}: imported {count(lambda c: c.imported)}, raised to blocks "
              f"{count(lambda c: c.raised)}, equal {count(lambda c: c.equal == MESHES)}")
    suite.finish()


if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    main()
