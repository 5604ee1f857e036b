"""Writes ONNX files without the ONNX package: nodes, initializers, inputs, outputs."""
import numpy as np

from onnx_lite import encode, join

KINDS = {"float32": 1, "int64": 7, "bool": 9}


def signed(value):
    return value & (1 << 64) - 1


def tensor(name, array):
    array = np.asarray(array, order="C") # ascontiguousarray gives a number a dim
    return join([*[(1, 0, size) for size in array.shape], (2, 0, KINDS[array.dtype.name]), (8, 2, name.encode()),
                 (9, 2, array.tobytes())])


def attribute(name, value):
    if isinstance(value, int):
        return join([(1, 2, name.encode()), (3, 0, signed(value)), (20, 0, 2)])
    if isinstance(value, float):
        return join([(1, 2, name.encode()), (2, 5, np.float32(value).tobytes()), (20, 0, 1)])
    if isinstance(value, str):
        return join([(1, 2, name.encode()), (4, 2, value.encode()), (20, 0, 3)])
    if isinstance(value, np.ndarray):
        return join([(1, 2, name.encode()), (5, 2, tensor("", value)), (20, 0, 4)])
    packed = b"".join(encode(signed(one)) for one in value)
    return join([(1, 2, name.encode()), (8, 2, packed), (20, 0, 7)])


class Graph:
    """Collects nodes; `op` returns the name of its only output."""

    def __init__(self):
        self.nodes, self.tensors, self.inputs, self.outputs, self.count = [], [], [], [], 0

    def op(self, kind, *inputs, domain="", **attributes):
        self.count += 1
        name = f"{kind}_{self.count}"
        self.nodes.append(join([*[(1, 2, one.encode()) for one in inputs], (2, 2, name.encode()),
                                (3, 2, name.encode()), (4, 2, kind.encode()),
                                *[(5, 2, attribute(key, value)) for key, value in attributes.items()],
                                *([(7, 2, domain.encode())] if domain else [])]))
        return name

    def constant(self, value, kind=None):
        self.count += 1
        name = f"constant_{self.count}"
        self.tensors.append(tensor(name, np.asarray(value, kind)))
        return name

    def weight(self, name, value):
        self.tensors.append(tensor(name, value.astype(np.float32)))
        return name

    @staticmethod
    def described(name, kind, dims):
        shape = join([(1, 2, join([(2, 2, d.encode()) if isinstance(d, str) else (1, 0, d)])) for d in dims])
        return join([(1, 2, name.encode()), (2, 2, join([(1, 2, join([(1, 0, KINDS[kind]), (2, 2, shape)]))]))])

    def input(self, name, kind, *dims):
        self.inputs.append(self.described(name, kind, dims))
        return name

    def output(self, value, name, *dims):
        self.nodes.append(join([(1, 2, value.encode()), (2, 2, name.encode()), (3, 2, name.encode()),
                                (4, 2, b"Identity")]))
        self.outputs.append(self.described(name, "float32", dims))

    def write(self, path):
        graph = join([*[(1, 2, node) for node in self.nodes], (2, 2, b"graph"), *[(5, 2, t) for t in self.tensors],
                      *[(11, 2, i) for i in self.inputs], *[(12, 2, o) for o in self.outputs]])
        with open(path, "wb") as f:
            f.write(join([(1, 0, 8), (7, 2, graph), (8, 2, join([(1, 2, b""), (2, 0, 18)])),
                          (8, 2, join([(1, 2, b"com.microsoft"), (2, 0, 1)]))]))
