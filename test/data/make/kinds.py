"""Writes test/data/kinds: one graph whose inputs and outputs are of every kind.

Scalars, booleans, integers, empty arrays, constants, and outputs that are inputs;
vectors with an empty and with a filled cache, by ONNX Runtime.
"""
import os

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto as T
from onnx import helper, numpy_helper

OUT = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "kinds")


def value(name, kind, shape):
    return helper.make_tensor_value_info(name, kind, shape)


def graph(random):
    node = helper.make_node
    nodes = [node("Gather", ["table", "ids"], ["row"]),
             node("MatMul", ["row", "weight"], ["product"]),
             node("Mul", ["product", "scale"], ["y"]),
             node("Greater", ["y", "zero"], ["positive"]),
             node("ArgMax", ["y"], ["largest"], axis=-1, keepdims=0),
             node("Identity", ["ids"], ["same"]),
             node("Identity", ["flag"], ["same/flag"]),
             node("Constant", [], ["constant"], value=numpy_helper.from_array(np.arange(3))),
             node("Shape", ["y"], ["shape"]),
             node("Mul", ["scale", "scale"], ["square"]),
             node("ReduceSum", ["y"], ["total"], keepdims=0),
             node("Where", ["flag", "y", "zero"], ["chosen"]),
             node("Concat", ["past", "y"], ["present"], axis=1)]
    inputs = [value("ids", T.INT64, ["b", "s"]), value("scale", T.FLOAT, []),
              value("flag", T.BOOL, ["b", "s", 1]), value("past", T.FLOAT, ["b", "p", 4])]
    outputs = [value("y", T.FLOAT, ["b", "s", 4]), value("positive", T.BOOL, ["b", "s", 4]),
               value("largest", T.INT64, ["b", "s"]), value("same", T.INT64, ["b", "s"]),
               value("same/flag", T.BOOL, ["b", "s", 1]), value("constant", T.INT64, [3]),
               value("shape", T.INT64, [3]), value("square", T.FLOAT, []),
               value("total", T.FLOAT, []), value("chosen", T.FLOAT, ["b", "s", 4]),
               value("present", T.FLOAT, ["b", "t", 4])]
    tensors = [numpy_helper.from_array(random.standard_normal((6, 4)).astype(np.float32), "weight"),
               numpy_helper.from_array(random.standard_normal((10, 6)).astype(np.float32), "table"),
               numpy_helper.from_array(np.float32(0), "zero")]
    return helper.make_graph(nodes, "kinds", inputs, outputs, tensors)


def main():
    random = np.random.default_rng(0)
    os.makedirs(OUT, exist_ok=True)
    model = helper.make_model(graph(random), opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    path = os.path.join(OUT, "model.onnx")
    onnx.save(model, path)
    session = onnxruntime.InferenceSession(path)
    for past in (0, 2):
        inputs = {"ids": random.integers(0, 10, (4, 3)), "scale": np.array(1.5, np.float32),
                  "flag": random.integers(0, 2, (4, 3, 1)).astype(bool),
                  "past": random.standard_normal((4, past, 4)).astype(np.float32)}
        outputs = dict(zip([o.name for o in session.get_outputs()], session.run(None, inputs)))
        np.savez(os.path.join(OUT, f"inputs_{past}.npz"), **inputs)
        np.savez(os.path.join(OUT, f"expected_{past}.npz"),
                 **{name.replace("/", "_"): np.asarray(v) for name, v in outputs.items()})


if __name__ == "__main__":
    main()
