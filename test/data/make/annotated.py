"""Writes test/data/annotated: graphs whose nodes say how two devices share their values.

The same small network three times: `columns` cuts a product (the columns before it and the
rows behind it), `rows` cuts what a product sums over, `whole` keeps a product whole.
Expected values by NumPy in double precision.
"""
import os

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper, numpy_helper

OUT = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "annotated")
CASES = {"columns": ("up", "a", 2, 2), "rows": ("up", "x", -1, 2), "whole": ("up", "a", 2, 1)}


def graph(weights):
    node = helper.make_node
    nodes = [node("Gather", ["table", "ids"], ["x"], name="table"),
             node("MatMul", ["x", "w_up"], ["a"], name="up"),
             node("Relu", ["a"], ["r"], name="relu"),
             node("MatMul", ["r", "w_down"], ["d"], name="down"),
             node("Add", ["x", "d"], ["h"], name="add"),
             node("MatMul", ["h", "w_head"], ["y"], name="head")]
    ids = helper.make_tensor_value_info("ids", T.INT64, ["b", "s"])
    y = helper.make_tensor_value_info("y", T.FLOAT, ["b", "s", 12])
    tensors = [numpy_helper.from_array(value, name) for name, value in weights.items()]
    return helper.make_graph(nodes, "annotated", [ids], [y], tensors)


def annotate(model, node, tensor, axis, parts):
    model.configuration.add(name="two", num_devices=2)
    own = next(n for n in model.graph.node if n.name == node).device_configurations.add()
    own.configuration_id = "two"
    spec = own.sharding_spec.add(tensor_name=tensor, device=[0, 1])
    spec.sharded_dim.add(axis=axis).simple_sharding.add(num_shards=parts)


def main():
    random = np.random.default_rng(0)
    os.makedirs(OUT, exist_ok=True)
    shapes = {"table": (10, 8), "w_up": (8, 16), "w_down": (16, 8), "w_head": (8, 12)}
    weights = {name: random.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    ids = random.integers(0, 10, (2, 3))
    x = weights["table"].astype(np.float64)[ids]
    h = x + np.maximum(x @ weights["w_up"], 0) @ weights["w_down"]
    np.savez(os.path.join(OUT, "inputs.npz"), ids=ids)
    np.savez(os.path.join(OUT, "expected.npz"), y=(h @ weights["w_head"]).astype(np.float32))
    for name, annotation in CASES.items():
        model = helper.make_model(graph(weights), opset_imports=[helper.make_opsetid("", 18)], ir_version=11)
        annotate(model, *annotation)
        onnx.save(model, os.path.join(OUT, name + ".onnx"))


if __name__ == "__main__":
    main()
