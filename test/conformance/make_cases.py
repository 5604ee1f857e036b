#!/usr/bin/env python3
"""Writes cases/*.onnx: ops of com.microsoft, with what ONNX Runtime computes.

usage: make_cases.py    (needs onnx, onnxruntime and numpy)

A case is one model. The initializer `given:NAME` is the value of input NAME, and
`expected:NAME` that of output NAME. Opset 21 and com.microsoft 1; random numbers are
fixed.
"""
import pathlib

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

HERE = pathlib.Path(__file__).resolve().parent
F, I, L = np.float32, np.int32, np.int64
OPTIONS = onnxruntime.SessionOptions()
OPTIONS.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL


class Cases:
    def __init__(self):
        self.names = []

    def add(self, name, op, inputs, outputs, weights=(), domain="com.microsoft", expected=None,
            compare=None, opset=21, **attributes):
        """`inputs` maps names to values (None: left out), `weights` names those that are
        initializers. Without `expected`, ONNX Runtime says what comes out; `compare` names
        the outputs that count."""
        random_names = [n if v is not None else "" for n, v in inputs.items()]
        while random_names and not random_names[-1]:
            random_names.pop()
        node = helper.make_node(op, random_names, outputs, domain=domain, name=name, **attributes)
        values = {n: v for n, v in inputs.items() if v is not None}
        runtime = [n for n in values if n not in weights]
        kept = compare or [o for o in outputs if o]

        def info(n, v):
            return helper.make_tensor_value_info(
                n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)

        def model(results, extra):
            graph = helper.make_graph(
                [node], name, [info(n, values[n]) for n in runtime], results,
                [numpy_helper.from_array(values[n], n) for n in weights if n in values] + extra)
            return helper.make_model(graph, ir_version=10, opset_imports=[
                helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)])

        if expected is None:
            untyped = [helper.make_empty_tensor_value_info(o) for o in kept]
            session = onnxruntime.InferenceSession(
                model(untyped, []).SerializeToString(), OPTIONS, ["CPUExecutionProvider"])
            expected = dict(zip(kept, session.run(kept, {n: values[n] for n in runtime})))
        kept = [o for o in kept if o in expected]
        data = [numpy_helper.from_array(values[n], "given:" + n) for n in runtime]
        data += [numpy_helper.from_array(expected[o], "expected:" + o) for o in kept]
        made = model([info(o, expected[o]) for o in kept], data)
        made.producer_name = "make_cases.py, ONNX Runtime " + onnxruntime.__version__
        (HERE / "cases").mkdir(exist_ok=True)
        onnx.save(made, str(HERE / "cases" / f"{name}.onnx"))
        self.names.append(name)


def floats(*shape, seed=[0], scale=1.0):
    seed[0] += 1
    return (np.random.default_rng(seed[0]).standard_normal(shape) * scale).astype(F)


def attend(q, k, v):
    """Of [batch, rows, heads, dim], without a mask; [batch, rows, width]."""
    scores = np.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(q.shape[3])
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    return np.einsum("bhqk,bkhd->bqhd", weights, v).reshape(q.shape[0], q.shape[1], -1).astype(F)


def tables(positions, half):
    angles = np.arange(positions)[:, None] / 10000 ** (np.arange(half) / half)
    return np.cos(angles).astype(F), np.sin(angles).astype(F)


def elementwise(cases):
    x, bias = floats(2, 3, 8), floats(8)
    cases.add("gelu", "Gelu", {"x": x}, ["y"])
    cases.add("fast_gelu", "FastGelu", {"x": x}, ["y"])
    cases.add("fast_gelu_bias", "FastGelu", {"x": x, "bias": bias}, ["y"], weights=["bias"])
    cases.add("bias_gelu", "BiasGelu", {"x": x, "bias": bias}, ["y"], weights=["bias"])
    cases.add("quick_gelu", "QuickGelu", {"x": x}, ["y"], alpha=1.702)
    cases.add("fused_matmul_b", "FusedMatMul", {"a": floats(2, 4, 3), "b": floats(2, 5, 3)},
              ["y"], transB=1, alpha=0.5)
    cases.add("fused_matmul_a", "FusedMatMul", {"a": floats(3, 4), "b": floats(3, 5)}, ["y"],
              transA=1)


def norms(cases):
    x, skip, scale, beta, bias = floats(2, 3, 8), floats(2, 3, 8), floats(8), floats(8), floats(8)
    every = ["scale", "beta", "bias"]
    cases.add("skip_layer_norm", "SkipLayerNormalization",
              {"x": x, "skip": skip, "scale": scale, "beta": beta, "bias": bias},
              ["y", "", "", "sum"], weights=every, epsilon=1e-5)
    cases.add("skip_layer_norm_plain", "SkipLayerNormalization",
              {"x": x, "skip": skip, "scale": scale}, ["y"], weights=every)
    cases.add("skip_layer_norm_broadcast", "SkipLayerNormalization",
              {"x": x, "skip": floats(1, 3, 8), "scale": scale, "beta": beta}, ["y"],
              weights=every)
    cases.add("skip_rms_norm", "SkipSimplifiedLayerNormalization",
              {"x": x, "skip": skip, "scale": scale}, ["y", "", "", "sum"], weights=every,
              epsilon=1e-6)
    cases.add("skip_rms_norm_bias", "SkipSimplifiedLayerNormalization",
              {"x": x, "skip": skip, "scale": scale, "bias": bias}, ["y", "", "", "sum"],
              weights=every, epsilon=1e-6)
    cases.add("simplified_layer_norm", "SimplifiedLayerNormalization",
              {"x": x, "scale": scale}, ["y"], weights=every, domain="", epsilon=1e-6, axis=-1)
    ids = np.array([[1, 0, 3], [2, 2, 4]], I)
    segments = np.array([[0, 0, 1], [0, 1, 1]], I)
    embeddings = {"ids": ids, "segments": segments, "words": floats(5, 8), "positions": floats(6, 8),
                  "types": floats(2, 8), "gamma": scale, "beta": beta}
    stored = ["words", "positions", "types", "gamma", "beta"]
    cases.add("embed_layer_norm", "EmbedLayerNormalization", embeddings, ["y", "lengths"],
              weights=stored, epsilon=1e-12)
    cases.add("embed_layer_norm_mask", "EmbedLayerNormalization",
              embeddings | {"mask": np.array([[1, 1, 0], [1, 1, 1]], I)},
              ["y", "lengths", "sum"], weights=stored, epsilon=1e-12)
    cases.add("embed_layer_norm_positions", "EmbedLayerNormalization",
              embeddings | {"segments": None, "types": None, "mask": None,
                            "places": np.array([[2, 3, 4], [0, 5, 1]], I)},
              ["y", "lengths"], weights=stored)


def rotary(cases):
    cos, sin = tables(16, 4)
    stored = ["cos", "sin"]
    ids = np.array([[0, 1, 2], [5, 6, 9]], L)
    four, three = floats(2, 3, 3, 8), floats(2, 3, 24)
    for kind, x in (("4d", four), ("3d", three)):
        for interleaved in (0, 1):
            cases.add(f"rotary_{kind}_{'interleaved' if interleaved else 'halves'}",
                      "RotaryEmbedding", {"x": x, "ids": ids, "cos": cos, "sin": sin}, ["y"],
                      weights=stored, interleaved=interleaved)
    cases.add("rotary_offset", "RotaryEmbedding",
              {"x": three, "ids": np.array([4], L), "cos": cos, "sin": sin}, ["y"],
              weights=stored + ["ids"])
    half_cos, half_sin = tables(16, 2)
    cases.add("rotary_partial", "RotaryEmbedding",
              {"x": four, "ids": ids, "cos": half_cos, "sin": half_sin}, ["y"], weights=stored,
              num_heads=3, rotary_embedding_dim=4)


def attention(cases):
    x, w, bias = floats(2, 3, 8), floats(8, 24, scale=0.4), floats(24)
    stored = ["w", "bias"]
    base = {"x": x, "w": w, "bias": bias}

    def add(name, more=None, outputs=("y",), weights=stored, **attributes):
        cases.add("attention_" + name, "Attention", base | (more or {}), list(outputs),
                  weights=weights, num_heads=2, **attributes)

    add("plain")
    add("causal", unidirectional=1)
    add("padding", {"mask": np.array([[1, 1, 0], [1, 1, 1]], I)})
    add("causal_padding", {"mask": np.array([[1, 1, 0], [1, 1, 1]], I)}, unidirectional=1)
    add("lengths", {"mask": np.array([2, 3], I)})
    add("lengths_left", {"mask": np.array([3, 3, 1, 0], I)})
    add("mask3d", {"mask": np.array([[[1, 0, 0], [1, 1, 0], [1, 1, 1]]] * 2, I)})
    add("known_mask", {"mask": np.ones((2, 3), I)}, weights=stored + ["mask"])
    add("past", {"mask": None, "past": floats(2, 2, 2, 4, 4)}, ["y", "present"], unidirectional=1)
    add("bias_added", {"mask": None, "past": None, "added": floats(2, 2, 3, 3)})
    add("scale", scale=0.3)

    q, k, v = floats(2, 3, 8), floats(2, 5, 8), floats(2, 5, 8)

    def multi(name, inputs, outputs=("y",), **attributes):
        cases.add("multi_head_" + name, "MultiHeadAttention", inputs, list(outputs),
                  weights=["bias"], num_heads=2, **attributes)

    multi("cross", {"q": q, "k": k, "v": v})
    multi("bias", {"q": q, "k": k, "v": v, "bias": floats(24)})
    multi("padding", {"q": q, "k": k, "v": v, "bias": None,
                      "mask": np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], I)})
    multi("added", {"q": q, "k": k, "v": v, "bias": None, "mask": None,
                    "added": floats(1, 2, 3, 5)})
    # Packed operands are not for its CPU kernels.
    qkv, kv = floats(2, 3, 2, 3, 4), floats(2, 5, 2, 2, 4)
    multi("packed", {"q": qkv},
          expected={"y": attend(qkv[:, :, :, 0], qkv[:, :, :, 1], qkv[:, :, :, 2])})
    multi("packed_kv", {"q": q, "k": kv},
          expected={"y": attend(q.reshape(2, 3, 2, 4), kv[:, :, :, 0], kv[:, :, :, 1])})
    multi("cross_cache", {"q": q, "k": floats(2, 2, 5, 4), "v": floats(2, 2, 5, 4)})
    multi("causal", {"q": q, "k": q, "v": floats(2, 3, 8)}, unidirectional=1)
    multi("past", {"q": q, "k": floats(2, 3, 8), "v": floats(2, 3, 8), "bias": None, "mask": None,
                   "added": None, "past_k": floats(2, 2, 4, 4), "past_v": floats(2, 2, 4, 4)},
          ["y", "present_k", "present_v"])


def group_query(cases):
    cos, sin = tables(32, 8)

    def add(name, rows, past, inputs=None, heads=4, kv_heads=2, dim=16, packed=False, lengths=None,
            outputs=("y", "present_k", "present_v"), compare=None, **attributes):
        width = (heads + 2 * kv_heads) * dim if packed else heads * dim
        total = past + rows
        lengths = [total, total] if lengths is None else lengths
        values = {
            "q": floats(2, rows, width),
            "k": None if packed else floats(2, rows, kv_heads * dim),
            "v": None if packed else floats(2, rows, kv_heads * dim),
            "past_k": floats(2, kv_heads, past, dim), "past_v": floats(2, kv_heads, past, dim),
            "last": np.array(lengths, I) - 1, "total": np.array(total, I),
        }
        if past == 0:
            values["past_k"] = values["past_v"] = None
        rotates = attributes.get("do_rotary", 0)
        values |= {"cos": cos if rotates else None, "sin": sin if rotates else None}
        values |= inputs or {}
        cases.add("group_query_" + name, "GroupQueryAttention", values, list(outputs),
                  weights=["cos", "sin", "total"], compare=compare, num_heads=heads,
                  kv_num_heads=kv_heads, **attributes)

    add("prefill", 5, 0)
    add("packed", 5, 0, packed=True)
    add("rotary", 5, 0, do_rotary=1)
    add("packed_rotary", 5, 0, packed=True, do_rotary=1)
    add("rotary_interleaved", 5, 0, do_rotary=1, rotary_interleaved=1)
    add("window", 6, 0, local_window_size=2)
    add("softcap", 5, 0, softcap=2.0)
    add("scale", 5, 0, scale=0.2)
    add("decode", 1, 6)
    add("decode_rotary", 1, 6, do_rotary=1)
    add("decode_window", 1, 6, local_window_size=3)
    add("decode_packed_rotary", 1, 6, packed=True, do_rotary=1)
    # A sample with padding in its cache: the cache that comes out is laid out otherwise.
    add("decode_ragged", 1, 6, do_rotary=1, lengths=[5, 7], compare=["y"])
    add("ragged", 5, 0, lengths=[3, 5])
    add("ragged_window", 5, 0, lengths=[4, 5], local_window_size=2)
    add("bias", 5, 0, {"ids": None, "added": floats(2, 4, 5, 5)})
    add("sink", 5, 0, {"ids": None, "added": None, "sink": floats(4)})
    add("smooth", 5, 0, smooth_softmax=1)
    add("one_head", 4, 0, heads=3, kv_heads=1)


def standard(cases):
    """Forms that exporters write although ONNX Runtime refuses them."""
    x = floats(3, 2, 4, 8)  # batch, heads, rows, dim
    cos, sin = (t[None, :4] for t in tables(16, 4))
    a, b = x[..., :4], x[..., 4:]
    y = np.concatenate([a * cos[:, None] - b * sin[:, None], b * cos[:, None] + a * sin[:, None]], -1)
    cases.add("rotary_one_cache", "RotaryEmbedding", {"x": x, "cos": cos, "sin": sin}, ["y"],
              domain="", opset=23, expected={"y": y.astype(F)})
    gate, up = floats(2, 6), floats(2, 6)
    cases.add("swiglu", "SwiGLU", {"gate": gate, "up": up}, ["y"], domain="", opset=28, alpha=0.5,
              expected={"y": gate / (1 + np.exp(-0.5 * gate)) * up})


def gemms(cases):
    for activation in ("Relu", "Tanh", "Sigmoid"):
        cases.add("fused_gemm_" + activation.lower(), "FusedGemm",
                  {"a": floats(3, 4), "b": floats(5, 4), "c": floats(5)}, ["y"], weights=["b", "c"],
                  activation=activation, transB=1, alpha=0.5)


def limits(cases):
    """Numbers at the ends of a type, where a formula may overflow."""
    def add(name, op, inputs, outputs=("y",), **attributes):
        cases.add(name, op, inputs, list(outputs), domain="", **attributes)

    inf = np.inf
    add("atan_large", "Atan", {"x": np.array([1e30, -3e38, inf, -inf, 2, -1, 0.5, 0], F)})
    add("asinh_large", "Asinh", {"x": np.array([1e30, -3e38, 2e9, -2, 0], F)})
    add("acosh_large", "Acosh", {"x": np.array([1e30, 3e38, 2e9, 2, 1], F)})
    add("quantize_zeros", "DynamicQuantizeLinear", {"x": np.zeros((2, 3), F)},
        ["y", "scale", "zero"])
    x = np.array([2**63, 2**63 + 2**62, 2**63 + 2**40, 2**62, 5], np.uint64)
    for direction, shift in (("RIGHT", 0), ("RIGHT", 1), ("RIGHT", 20), ("RIGHT", 63), ("LEFT", 63)):
        add(f"shift_{direction.lower()}_{shift}", "BitShift",
            {"x": x, "by": np.full(5, shift, np.uint64)}, direction=direction)


def main():
    cases = Cases()
    for family in (elementwise, norms, rotary, attention, group_query, standard, gemms, limits):
        family(cases)
    print(len(cases.names), "cases")


if __name__ == "__main__":
    main()
