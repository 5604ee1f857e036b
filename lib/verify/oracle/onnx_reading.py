"""An ONNX graph in PyTorch, node by node, so that it has gradients: float64 where anything depends
on inputs or parameters; what follows from the file's constants alone is float32, as the file says.

Written from ONNX's description of its operators, and held to ONNX Runtime's outputs by oracle.py.
"""
import math

import numpy as np
import onnx
import torch
from onnx import numpy_helper


class Unknown(Exception):
    """An op, or a form of one, that is not read here."""


def tensor(array):
    array = np.asarray(array)
    if array.dtype.kind in "iu":
        array = array.astype(np.int64)
    elif array.dtype.kind not in "b":  # floats, bfloat16 of ml_dtypes too
        array = array.astype(np.float32 if array.dtype != np.float64 else np.float64)
    return torch.from_numpy(np.array(array))


def together(*values):
    """Floats of one precision: the highest of all, whatever their ranks."""
    if any(v.dtype == torch.float64 for v in values):
        return [v.double() if v.is_floating_point() else v for v in values]
    return list(values)


def numbers(value):
    return [int(x) for x in value.reshape(-1).tolist()]


KINDS = {1: "float", 10: "float", 11: "float", 16: "float", 9: "bool", **dict.fromkeys([2, 3, 4, 5, 6, 7, 12, 13], "int")}


def cast(x, to):
    kind = KINDS.get(to)
    if kind == "float":
        return x if x.is_floating_point() else x.to(torch.float32)
    if kind == "bool":
        return x != 0
    if kind == "int":
        return x.trunc().to(torch.int64) if x.is_floating_point() else x.to(torch.int64)
    raise Unknown(f"Cast to type {to}")


def reduction(x, attrs, inputs, opset, function):
    axes = attrs.get("axes")
    if axes is None and len(inputs) > 1 and inputs[1] is not None:
        axes = numbers(inputs[1])
    if not axes:
        if attrs.get("noop_with_empty_axes", 0):
            return x
        axes = list(range(x.ndim))
    return function(x, tuple(axes), bool(attrs.get("keepdims", 1)))


def slices(attrs, inputs, opset):
    x = inputs[0]
    if opset < 10:
        starts, ends = attrs["starts"], attrs["ends"]
        axes, steps = attrs.get("axes", list(range(len(starts)))), [1] * len(starts)
    else:
        starts, ends = numbers(inputs[1]), numbers(inputs[2])
        axes = numbers(inputs[3]) if len(inputs) > 3 and inputs[3] is not None else list(range(len(starts)))
        steps = numbers(inputs[4]) if len(inputs) > 4 and inputs[4] is not None else [1] * len(starts)
    for start, end, axis, step in zip(starts, ends, axes, steps):
        index = torch.arange(x.shape[axis])[slice(start, end, step)] if step > 0 else \
            torch.from_numpy(np.arange(x.shape[axis])[slice(start, None if end < -x.shape[axis] else end, step)].copy())
        x = x.index_select(axis, index)
    return x


def split(attrs, inputs, count):
    x, axis = inputs[0], attrs.get("axis", 0)
    sizes = attrs.get("split")
    if sizes is None and len(inputs) > 1 and inputs[1] is not None:
        sizes = numbers(inputs[1])
    if sizes is None:
        part = -(-x.shape[axis] // count)
        sizes = [min(part, x.shape[axis] - i * part) for i in range(count)]
    if sum(sizes) != x.shape[axis]:  # such as a part for each expert, of which a row may take fewer
        raise Unknown(f"Split of {x.shape[axis]} elements into {sum(sizes)}")
    return list(torch.split(x, list(sizes), axis))


def reshape(attrs, inputs):
    x, shape = inputs[0], numbers(inputs[1])
    if not attrs.get("allowzero", 0):
        shape = [x.shape[i] if s == 0 else s for i, s in enumerate(shape)]
    return x.reshape(shape)


def gather(attrs, inputs):
    x, ids, axis = inputs[0], inputs[1], attrs.get("axis", 0) % inputs[0].ndim
    ids = torch.where(ids < 0, ids + x.shape[axis], ids)
    out = x.index_select(axis, ids.reshape(-1))
    return out.reshape([*x.shape[:axis], *ids.shape, *x.shape[axis + 1:]])


def gather_nd(attrs, inputs):
    x, ids, batch = inputs[0], inputs[1], attrs.get("batch_dims", 0)
    lead = [torch.arange(n).reshape([n if i == d else 1 for i in range(batch)] + [1] * (ids.ndim - 1 - batch))
            for d, n in enumerate(x.shape[:batch])]
    places = [torch.where(i < 0, i + x.shape[batch + k], i) for k, i in enumerate(ids.unbind(-1))]
    return x[tuple(lead + places)]


def gather_elements(attrs, inputs):
    x, ids, axis = inputs[0], inputs[1], attrs.get("axis", 0)
    return torch.gather(x, axis, torch.where(ids < 0, ids + x.shape[axis], ids))


def top_k(attrs, inputs):
    """Of equal values that with the lower index comes first."""
    x, axis, count = inputs[0], attrs.get("axis", -1), numbers(inputs[1])[0]
    if not attrs.get("sorted", 1):
        raise Unknown("TopK in no order")
    values, ids = torch.sort(x, dim=axis, descending=bool(attrs.get("largest", 1)), stable=True)
    return [values.narrow(axis, 0, count), ids.narrow(axis, 0, count)]


def one_hot(attrs, inputs):
    ids, depth, values = inputs[0], numbers(inputs[1])[0], inputs[2]
    axis = attrs.get("axis", -1)
    places = torch.where(ids < 0, ids + depth, ids).unsqueeze(axis)
    shape = [1] * places.ndim
    shape[axis] = depth
    return torch.where(torch.arange(depth).reshape(shape) == places, values[1], values[0])


def summed(attrs, name):
    kind = attrs.get("reduction", b"none")
    kind = kind.decode() if isinstance(kind, bytes) else kind
    if kind not in ("none", "add"):
        raise Unknown(f"{name} that keeps the {kind}")
    return kind == "add"


def scatter_elements(attrs, inputs):
    (x, updates), ids, axis = together(inputs[0], inputs[2]), inputs[1], attrs.get("axis", 0)
    ids = torch.where(ids < 0, ids + x.shape[axis], ids)
    return x.scatter_add(axis, ids, updates) if summed(attrs, "ScatterElements") else x.scatter(axis, ids, updates)


def scatter_nd(attrs, inputs):
    x, updates = together(inputs[0], inputs[2])
    places = tuple(torch.where(i < 0, i + x.shape[k], i) for k, i in enumerate(inputs[1].unbind(-1)))
    return x.index_put(places, updates, accumulate=summed(attrs, "ScatterND"))


def norm_axes(x, attrs):
    return tuple(range(attrs.get("axis", -1) % x.ndim, x.ndim))


def layer_norm(attrs, inputs):
    x, scale, *bias = inputs
    dims = norm_axes(x, attrs)
    mean = x.mean(dims, keepdim=True)
    variance = ((x - mean) ** 2).mean(dims, keepdim=True)
    y = (x - mean) / torch.sqrt(variance + attrs.get("epsilon", 1e-5)) * scale
    return y + bias[0] if bias and bias[0] is not None else y


def rms_norm(attrs, inputs):
    x, scale = inputs[:2]
    square = (x ** 2).mean(norm_axes(x, attrs), keepdim=True)
    return x / torch.sqrt(square + attrs.get("epsilon", 1e-5)) * scale


def gelu(attrs, inputs):
    form = attrs.get("approximate", b"none")
    x = inputs[0]
    if (form.decode() if isinstance(form, bytes) else form) == "tanh":
        return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))
    return 0.5 * x * (1 + torch.erf(x / math.sqrt(2)))


def gemm(attrs, inputs):
    a, b = (m.transpose(0, 1) if attrs.get(flag, 0) else m for m, flag in zip(inputs, ("transA", "transB")))
    y = attrs.get("alpha", 1.0) * (a @ b)
    return y + attrs.get("beta", 1.0) * inputs[2] if len(inputs) > 2 and inputs[2] is not None else y


def softmax(attrs, inputs, opset, function=torch.softmax):
    x = inputs[0]
    if opset >= 13:
        return function(x, attrs.get("axis", -1))
    at = attrs.get("axis", 1) % x.ndim
    flat = x.reshape(math.prod(x.shape[:at]), -1)
    return function(flat, -1).reshape(x.shape)


def rotary(attrs, inputs):
    x, cos, sin = inputs[:3]
    heads = x
    if x.ndim == 3:
        heads = x.reshape(x.shape[0], x.shape[1], attrs["num_heads"], -1).transpose(1, 2)
    if len(inputs) > 3 and inputs[3] is not None:
        cos, sin = cos[inputs[3]], sin[inputs[3]]
    cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
    dim = attrs.get("rotary_embedding_dim", 0) or heads.shape[-1]
    turned, rest = heads[..., :dim], heads[..., dim:]
    if attrs.get("interleaved", 0):
        a, b = turned[..., 0::2], turned[..., 1::2]
        turned = torch.stack([a * cos - b * sin, b * cos + a * sin], -1).flatten(-2)
    else:
        a, b = turned.chunk(2, -1)
        turned = torch.cat([a * cos - b * sin, b * cos + a * sin], -1)
    y = torch.cat([turned, rest], -1)
    return y.transpose(1, 2).reshape(x.shape) if x.ndim == 3 else y


def attention(attrs, inputs, count):
    q, k, v = together(*inputs[:3])
    mask = inputs[3] if len(inputs) > 3 else None
    if count > 1 or any(i is not None for i in inputs[4:]):
        raise Unknown("Attention with a cache")
    flat = q.ndim == 3
    if flat:
        batch, length, _ = q.shape
        q = q.reshape(batch, length, attrs["q_num_heads"], -1).transpose(1, 2)
        k, v = (t.reshape(batch, t.shape[1], attrs["kv_num_heads"], -1).transpose(1, 2) for t in (k, v))
    groups = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
    scores = q @ k.transpose(-1, -2) * attrs.get("scale", 1 / math.sqrt(q.shape[-1]))
    if attrs.get("softcap", 0):
        scores = attrs["softcap"] * torch.tanh(scores / attrs["softcap"])
    if mask is not None:
        scores = torch.where(mask, scores, -math.inf) if mask.dtype == torch.bool else scores + mask
    if attrs.get("is_causal", 0):
        seen = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
        scores = torch.where(seen, scores, -math.inf)
    y = torch.softmax(scores, -1) @ v
    return y.transpose(1, 2).flatten(2) if flat else y


def expand(inputs):
    shape = torch.broadcast_shapes(inputs[0].shape, tuple(numbers(inputs[1])))
    return inputs[0].expand(shape)


def squeeze(attrs, inputs):
    axes = attrs.get("axes") or (numbers(inputs[1]) if len(inputs) > 1 and inputs[1] is not None else None)
    x = inputs[0]
    if axes is None:
        return x.squeeze()
    return x.reshape([s for i, s in enumerate(x.shape) if i not in {a % x.ndim for a in axes}])


def unsqueeze(attrs, inputs):
    axes = attrs.get("axes") or numbers(inputs[1])
    x = inputs[0]
    for axis in sorted(a % (x.ndim + len(axes)) for a in axes):
        x = x.unsqueeze(axis)
    return x


def trilu(attrs, inputs):
    k = numbers(inputs[1])[0] if len(inputs) > 1 and inputs[1] is not None else 0
    return torch.triu(inputs[0], k) if attrs.get("upper", 1) else torch.tril(inputs[0], k)


def sequence_of(attrs, inputs):
    x, axis = inputs[0], attrs.get("axis", 0)
    if len(inputs) > 1 and inputs[1] is not None:
        sizes = numbers(inputs[1])
        return list(torch.split(x, sizes if inputs[1].ndim else sizes[0], axis))
    parts = list(torch.split(x, 1, axis))
    return parts if attrs.get("keepdims", 1) else [p.squeeze(axis) for p in parts]


def divide(a, b):
    return a / b if a.is_floating_point() else torch.div(a, b, rounding_mode="trunc")


def modulo(attrs, a, b):
    return torch.fmod(a, b) if attrs.get("fmod", 0) else torch.remainder(a, b)


def clip(attrs, inputs):
    low = inputs[1] if len(inputs) > 1 else attrs.get("min")
    high = inputs[2] if len(inputs) > 2 else attrs.get("max")
    x = inputs[0]
    if low is not None:
        x = torch.maximum(x, torch.as_tensor(low, dtype=x.dtype))
    return x if high is None else torch.minimum(x, torch.as_tensor(high, dtype=x.dtype))


def constant(attrs):
    for name, value in attrs.items():
        if name == "value":
            return tensor(numpy_helper.to_array(value))
        if name in ("value_int", "value_ints"):
            return torch.tensor(value, dtype=torch.int64)
        if name in ("value_float", "value_floats"):
            return torch.tensor(value, dtype=torch.float32)
    raise Unknown("Constant of strings")


def total(values, function):
    out = values[0]
    for value in values[1:]:
        out = function(out, value)
    return out


ELEMENTWISE = {
    "Add": torch.add, "Sub": torch.sub, "Mul": torch.mul, "Div": divide, "Pow": torch.pow, "Neg": torch.neg,
    "Sqrt": torch.sqrt, "Exp": torch.exp, "Log": torch.log, "Erf": torch.erf, "Tanh": torch.tanh, "Abs": torch.abs,
    "Sigmoid": torch.sigmoid, "Relu": torch.relu, "Sin": torch.sin, "Cos": torch.cos, "Floor": torch.floor,
    "Ceil": torch.ceil, "Round": torch.round, "Reciprocal": lambda x: 1 / x, "Sign": torch.sign, "Not": torch.logical_not,
    "And": torch.logical_and, "Or": torch.logical_or, "Xor": torch.logical_xor, "Equal": torch.eq, "Less": torch.lt,
    "LessOrEqual": torch.le, "Greater": torch.gt, "GreaterOrEqual": torch.ge, "IsNaN": torch.isnan, "IsInf": torch.isinf,
    "Identity": lambda x: x, "Softplus": torch.nn.functional.softplus, "MatMul": torch.matmul,
    "PRelu": lambda x, slope: torch.where(x < 0, slope * x, x),
}
REDUCED = {
    "ReduceMean": lambda x, axes, keep: x.mean(axes, keepdim=keep), "ReduceSum": lambda x, axes, keep: x.sum(axes, keepdim=keep),
    "ReduceMax": lambda x, axes, keep: x.amax(axes, keepdim=keep), "ReduceMin": lambda x, axes, keep: x.amin(axes, keepdim=keep),
    "ReduceL2": lambda x, axes, keep: (x ** 2).sum(axes, keepdim=keep).sqrt(),
    "ReduceSumSquare": lambda x, axes, keep: (x ** 2).sum(axes, keepdim=keep),
}


def compute(node, attrs, inputs, opset):
    """The values of the node's outputs, for one op that is neither elementwise nor a reduction."""
    op, x = node.op_type, inputs[0] if inputs else None
    simple = {
        "Constant": lambda: constant(attrs),
        "Shape": lambda: torch.tensor(list(x.shape)[attrs.get("start", 0):attrs.get("end", x.ndim)], dtype=torch.int64),
        "Size": lambda: torch.tensor(x.numel()),
        "Cast": lambda: cast(x, attrs["to"]),
        "CastLike": lambda: cast(x, 1 if inputs[1].is_floating_point() else 9 if inputs[1].dtype == torch.bool else 7),
        "Gather": lambda: gather(attrs, inputs), "GatherND": lambda: gather_nd(attrs, inputs),
        "GatherElements": lambda: gather_elements(attrs, inputs),
        "TopK": lambda: top_k(attrs, inputs), "OneHot": lambda: one_hot(attrs, inputs),
        "NonZero": lambda: torch.nonzero(x).transpose(0, 1),
        "ScatterElements": lambda: scatter_elements(attrs, inputs), "ScatterND": lambda: scatter_nd(attrs, inputs),
        "Reshape": lambda: reshape(attrs, inputs),
        "Flatten": lambda: x.reshape(math.prod(x.shape[:attrs.get("axis", 1) % (x.ndim + 1)]), -1),
        "Transpose": lambda: x.permute(attrs.get("perm", list(range(x.ndim))[::-1])),
        "Concat": lambda: torch.cat(together(*inputs), attrs["axis"]),
        "Slice": lambda: slices(attrs, inputs, opset),
        "Squeeze": lambda: squeeze(attrs, inputs), "Unsqueeze": lambda: unsqueeze(attrs, inputs),
        "Expand": lambda: expand(inputs), "Tile": lambda: x.repeat(numbers(inputs[1])),
        "Where": lambda: torch.where(x, *together(*inputs[1:])),
        "Range": lambda: torch.arange(*(v.item() for v in inputs), dtype=x.dtype),
        "ConstantOfShape": lambda: torch.full(
            numbers(x), (v := tensor(numpy_helper.to_array(attrs["value"])) if "value" in attrs else torch.zeros(1)).item(), dtype=v.dtype),
        "CumSum": lambda: torch.cumsum(x, numbers(inputs[1])[0]),
        "Trilu": lambda: trilu(attrs, inputs),
        "ArgMax": lambda: torch.argmax(x, attrs.get("axis", 0), bool(attrs.get("keepdims", 1))),
        "Max": lambda: total(together(*inputs), torch.maximum), "Min": lambda: total(together(*inputs), torch.minimum),
        "Sum": lambda: total(together(*inputs), torch.add), "Mod": lambda: modulo(attrs, *together(*inputs)),
        "Clip": lambda: clip(attrs, inputs),
        "Softmax": lambda: softmax(attrs, inputs, opset),
        "LogSoftmax": lambda: softmax(attrs, inputs, opset, torch.log_softmax),
        "LayerNormalization": lambda: layer_norm(attrs, together(*inputs)),
        "RMSNormalization": lambda: rms_norm(attrs, together(*inputs)),
        "Gelu": lambda: gelu(attrs, inputs), "Gemm": lambda: gemm(attrs, together(*inputs)),
        "Swish": lambda: x * torch.sigmoid(attrs.get("alpha", 1.0) * x),
        "RotaryEmbedding": lambda: rotary(attrs, [*together(*inputs[:3]), *inputs[3:]]),
        "SplitToSequence": lambda: [sequence_of(attrs, inputs)], "SequenceAt": lambda: x[numbers(inputs[1])[0]],
        "Split": lambda: split(attrs, inputs, len(node.output)),
        "Attention": lambda: attention(attrs, inputs, len([o for o in node.output if o])),
        "Dropout": lambda: x,
    }
    if node.domain not in ("", "ai.onnx") or op not in simple or (op == "CumSum" and (attrs.get("exclusive", 0) or attrs.get("reverse", 0))):
        raise Unknown((node.domain + "::" if node.domain else "") + op)
    return simple[op]()


def run(graph, opset, values):
    """Computes every node; `values` has inputs and initializers by name, and gets the rest.
    A Constant node whose output is in `values` (a parameter) keeps what is there."""
    for node in graph.node:
        if node.op_type == "Constant" and node.output[0] in values:
            continue
        attrs = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        inputs = [values[name] if name else None for name in node.input]
        if node.op_type in ELEMENTWISE and node.domain in ("", "ai.onnx"):
            out = ELEMENTWISE[node.op_type](*together(*inputs))
        elif node.op_type in REDUCED and node.domain in ("", "ai.onnx"):
            out = reduction(inputs[0], attrs, inputs, opset, REDUCED[node.op_type])
        else:
            out = compute(node, attrs, inputs, opset)
        many = isinstance(out, list)
        if sum(bool(o) for o in node.output) > (len(out) if many else 1):
            raise Unknown(f"{node.op_type} with {len(node.output)} outputs")
        for name, value in zip(node.output, out if many else [out]):
            values[name] = value
    return values
