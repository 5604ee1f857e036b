"""Runs a model's own file with given weights and rows, for `llmc verify --oracle`.

usage: oracle.py FOLDER
       oracle.py --needs onnx|config train|infer     whether the packages are there

FOLDER/request.json says what; FOLDER/arrays.safetensors has `weight:NAME` and `input:NAME` in
float64. Writes FOLDER/results.safetensors: `output:NAME`, and of a training `loss` and
`gradient:NAME`; FOLDER/notes.json says what could not be done, and why. Exit 3: packages are
missing.
"""
import importlib.util
import json
import mmap
import os
import re
import struct
import sys
import warnings


def need(*names):
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    if missing:
        print(f"{sys.executable} lacks {', '.join(missing)}: pip install {' '.join(missing)}", file=sys.stderr)
        sys.exit(3)


def need_for(is_onnx, infer):
    need("numpy", *(["onnx", "onnxruntime", *([] if infer else ["torch"])] if is_onnx else ["torch", "transformers"]))


if sys.argv[1] == "--needs":
    need_for(sys.argv[2] == "onnx", sys.argv[3] == "infer")
    print("ready")
    sys.exit(0)
need("numpy")
import numpy as np  # noqa: E402

TYPES = {"F64": np.float64, "F32": np.float32, "I64": np.int64}
IGNORED = -100


def read_arrays(path):
    with open(path, "rb") as f:
        data = f.read()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    out = {}
    for name, about in header.items():
        begin, end = (8 + size + at for at in about["data_offsets"])
        out[name] = np.frombuffer(data[begin:end], TYPES[about["dtype"]]).reshape(about["shape"]).copy()
    return out


def write_arrays(path, arrays):
    header, blocks, at = {}, [], 0
    for name, array in arrays.items():
        block = np.ascontiguousarray(array, np.float64).tobytes()
        header[name] = dict(dtype="F64", shape=list(np.shape(array)), data_offsets=[at, at + len(block)])
        blocks.append(block)
        at += len(block)
    text = json.dumps(header).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(blocks))


#===-- transformers -----------------------------------------------------------===#

class Exact:
    """In float64 models of transformers norms and softmax still round to float32; here they do not."""

    def __enter__(self):
        import torch
        self.saved = torch.Tensor.float, torch.Tensor.to, torch.nn.functional.softmax
        to, softmax = self.saved[1:]

        def keep(tensor, *arguments, **named):
            wanted = named.get("dtype", arguments[0] if arguments else None)
            if tensor.dtype == torch.float64 and wanted == torch.float32:
                return tensor
            return to(tensor, *arguments, **named)

        torch.Tensor.float = torch.Tensor.double
        torch.Tensor.to = keep
        torch.nn.functional.softmax = lambda x, dim=None, dtype=None, **_: softmax(x, dim=dim)

    def __exit__(self, *_):
        import torch
        torch.Tensor.float, torch.Tensor.to, torch.nn.functional.softmax = self.saved


def from_transformers(path):
    import torch
    import transformers
    with open(os.path.join(path, "config.json") if os.path.isdir(path) else path) as f:
        fields = json.load(f)
    if isinstance(fields.get("text_config"), dict) and fields.get("model_type") == "gemma3":
        fields = fields["text_config"]
    config = transformers.AutoConfig.for_model(**fields)
    config._attn_implementation = "eager"
    config._experts_implementation = "eager"  # the grouped products of PyTorch take no float64
    masked = config.model_type in ("bert", "roberta", "distilbert")
    factory = transformers.AutoModelForMaskedLM if masked else transformers.AutoModelForCausalLM
    model = factory.from_config(config).to(torch.float64).eval()
    model.config.use_cache = False
    for module in model.modules():
        if isinstance(module, torch.nn.Embedding):
            module.padding_idx = None  # llmc trains the row of a padding token like any other
    return model


def parts_of(name, tensor):
    """(name, index) of what checkpoints store of a parameter: all of it, and of stacked experts each matrix."""
    yield name, ...
    stacked = re.fullmatch(r"(.*\.experts)\.(gate_up_proj|down_proj)", name)
    for expert in range(len(tensor)) if stacked and tensor.ndim == 3 else []:
        prefix, half = f"{stacked[1]}.{expert}.", tensor.shape[1] // 2
        if stacked[2] == "down_proj":
            yield prefix + "down_proj.weight", (expert,)
        else:
            yield prefix + "gate_proj.weight", (expert, slice(half))
            yield prefix + "up_proj.weight", (expert, slice(half, None))


def names_of(source):
    """The names of a parameter: those of Mixtral's checkpoints are older than those of its model."""
    for name in [source["name"], *source["aliases"], *source["older_names"]]:
        yield name
        if ".block_sparse_moe." in name:
            for old, new in [("block_sparse_moe", "mlp"), ("w1", "gate_proj"), ("w2", "down_proj"), ("w3", "up_proj")]:
                name = name.replace(f".{old}.", f".{new}.")
            yield name


class ByConfig:
    def __init__(self, request, weights):
        import torch
        self.model = from_transformers(request["model"])
        self.parameters, self.sources, found = {}, request["sources"], set()
        own = dict(self.model.named_parameters(remove_duplicate=False))
        buffers = dict(self.model.named_buffers())
        places = {part: (tensor, index) for name, tensor in [*buffers.items(), *own.items()]
                  for part, index in parts_of(name, tensor)}
        for source in self.sources:
            for name in names_of(source):
                if name not in places:
                    continue
                tensor, index = places[name]
                match = tensor.detach()[index]
                value = torch.from_numpy(weights[source["name"]])
                value = value.T if value.shape != match.shape else value
                if value.shape != match.shape:
                    sys.exit(f"{name} has shape {list(match.shape)} in transformers, {list(value.shape)} in llmc")
                match.copy_(value)
                if (id(tensor), str(index)) not in found:
                    self.parameters.setdefault(source["name"], []).append((tensor, index))
                found.update([id(tensor), (id(tensor), str(index))])
        lost = [s["name"] for s in self.sources if s["name"] not in self.parameters]
        if lost:
            sys.exit(f"transformers' model has no parameter {lost[0]} (nor {len(lost) - 1} others)")
        self.others = {n: p for n, p in own.items() if id(p) not in found}

    def outputs(self, inputs):
        import torch
        given = {n: torch.from_numpy(v.astype(np.int64)) for n, v in inputs.items()}
        ids = given["input_ids"]
        if self.model.config.model_type == "roberta" and "position_ids" not in given:
            places = torch.arange(ids.shape[1]) + self.model.config.pad_token_id + 1
            given["position_ids"] = places.expand(ids.shape)
        with Exact():
            return {"logits": self.model(**given).logits}

    def gradients(self):
        for name, other in self.others.items():
            if other.grad is not None and bool((other.grad != 0).any()):
                sys.exit(f"transformers' parameter {name} has a gradient, and is none of llmc's")
        out = {}
        for name, copies in self.parameters.items():
            grads = [(np.zeros(p.shape) if p.grad is None else p.grad.numpy())[index] for p, index in copies]
            out[name] = sum(grads[1:], grads[0])  # a tied parameter may be two here
        return out


#===-- ONNX -------------------------------------------------------------------===#

def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value, at, shift = value | (byte & 127) << shift, at + 1, shift + 7
        if byte < 128:
            return value, at


def fields(data, at, end):
    """(number, begin, end) of the fields of a message that have a length."""
    while at < end:
        key, at = varint(data, at)
        kind = key & 7
        if kind == 0:
            at = varint(data, at)[1]
        elif kind in (1, 5):
            at += 8 if kind == 1 else 4
        else:
            size, at = varint(data, at)
            yield key >> 3, at, at + size
            at += size


def stored_places(path):
    """Where in the file the elements of each initializer and Constant node begin: offset -> name."""
    places = {}
    with open(path, "rb") as f, mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ) as data:
        def of_tensor(begin, end, name):
            for number, a, b in fields(data, begin, end):
                if number == 8 and name is None:
                    name = data[a:b].decode()
            for number, a, b in fields(data, begin, end):
                if number == 9:
                    places[a] = name
        for number, a, b in fields(data, 0, len(data)):
            for inner, c, d in fields(data, a, b) if number == 7 else []:
                if inner == 5:
                    of_tensor(c, d, None)
                elif inner == 1:
                    parts = list(fields(data, c, d))
                    outputs = [data[x:y].decode() for n, x, y in parts if n == 2]
                    for n, x, y in parts:
                        for m, p, q in fields(data, x, y) if n == 5 else []:
                            if m == 5 and len(outputs) == 1:
                                of_tensor(p, q, outputs[0])
    return places


class ByOnnx:
    def __init__(self, request, weights):
        import onnx
        self.request = request
        self.model = onnx.load(request["model"])
        if self.model.functions:
            import onnx.inliner
            self.model = onnx.inliner.inline_local_functions(self.model)
        self.opset = max([o.version for o in self.model.opset_import if o.domain in ("", "ai.onnx")] or [18])
        self.stored = {t.name: t for t in self.model.graph.initializer}
        for node in self.model.graph.node:
            if node.op_type == "Constant" and node.attribute and node.attribute[0].HasField("t"):
                self.stored[node.output[0]] = node.attribute[0].t
        self.bind(request, weights)

    def bind(self, request, weights):
        """self.values: name in the file -> (source, transposed) and its weights."""
        path = os.path.realpath(request["model"])
        places = {(path, at): name for at, name in stored_places(path).items()}
        import onnx
        for tensor in onnx.load(path, load_external_data=False).graph.initializer:
            place = {entry.key: entry.value for entry in tensor.external_data}
            if place:
                file = os.path.realpath(os.path.join(os.path.dirname(path), place["location"]))
                places[file, int(place.get("offset", 0))] = tensor.name
        self.values, self.bound, taken = {}, {}, set()
        for source in request["sources"]:
            place = (os.path.realpath(source["file"]), source["offset"]) if source["file"] else None
            if place and place in taken:
                continue  # another use of the same tensor, whose values are the same
            base = source["name"].split("#")[0]
            found = places.get(place) or next((n for n in (source["name"], base) if n in self.stored), None)
            if found is None:
                sys.exit(f"the file has no tensor for parameter {source['name']}")
            taken.add(place)
            for name, turned in [(found, False)] + [(n, False) for n in source["aliases"]] + \
                    [(n, True) for n in source["transposed_aliases"]]:
                if name in self.stored:
                    value = weights[source["name"]]
                    shape = tuple(self.stored[name].dims)
                    turned = turned or value.shape != shape
                    self.bound[name] = (source["name"], turned)
                    self.values[name] = value.T if turned else value
        self.refuse_merged(request["sources"])

    def uses(self, name):
        """How many nodes compute with a value, through those that pass it on."""
        count = 0
        for node in self.model.graph.node:
            if name in node.input and node.op_type == "Identity":
                count += self.uses(node.output[0])
            elif node.op_type not in ("Shape", "Size"):
                count += sum(n == name for n in node.input)
        return count

    def refuse_merged(self, sources):
        """An exporter may store a parameter of equal elements and an equal constant once. llmc tells the
        uses apart and gives the parameter other values; the file cannot."""
        from onnx import numpy_helper
        for name, (source, _) in self.bound.items():
            file = numpy_helper.to_array(self.stored[name])
            place = next((s["file"], s["offset"]) for s in sources if s["name"] == source)
            known = sum((s["file"], s["offset"]) == place for s in sources)
            if file.size and (file == file.flat[0]).all() and self.uses(name) > known:
                sys.exit(f"'{name}' stands for a parameter and for an equal constant, which the file stores once: "
                         "it cannot be run with other weights (torch.onnx.export(..., optimize=False) keeps them apart)")

    def is_narrow(self):
        """Whether the file computes in less than float32 anywhere."""
        narrow = {10, 16}
        casts = [a.i for n in self.model.graph.node if n.op_type == "Cast" for a in n.attribute if a.name == "to"]
        return bool(narrow & {*casts, *(t.data_type for t in self.stored.values())})

    def replace_stored(self):
        from onnx import numpy_helper
        for name, value in self.values.items():
            tensor = self.stored[name]
            dtype = numpy_helper.to_array(tensor).dtype
            tensor.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(value).astype(dtype), name))

    def feed(self, inputs):
        """An array for every input of the graph; those that a training leaves out as llmc takes them:
        masks are ones, positions count, caches are empty."""
        import onnx
        given = {}
        tokens = self.request["tokens"]
        for value in self.model.graph.input:
            if value.name in {t.name for t in self.model.graph.initializer}:
                continue
            kind = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
            if value.name in inputs:
                given[value.name] = inputs[value.name].astype(kind)
                continue
            if not self.request["infer"] and value.name == tokens:
                given[value.name] = inputs["input_ids"].astype(kind)
                continue
            batch, length = inputs["input_ids"].shape
            dims = [d.dim_value if d.HasField("dim_value") else None for d in value.type.tensor_type.shape.dim]
            rank = len(dims)
            if rank >= 3 and np.issubdtype(kind, np.floating):
                given[value.name] = np.zeros([batch if i == 0 else d or 0 for i, d in enumerate(dims)], kind)
                continue
            shape = ([batch] + [1] * (rank - 3) + [length] * min(rank - 1, 2) if rank > 1 else [length] * rank)
            shape = [d or s for d, s in zip(dims, shape)]
            if value.name in ("position_ids", "cache_position"):
                given[value.name] = np.broadcast_to(np.arange(length), shape).astype(kind)
            elif value.name == "token_type_ids" or rank < 2:
                given[value.name] = np.zeros(shape, kind) if rank < 2 and length == 1 or rank > 1 else \
                    np.arange(shape[0]).astype(kind) if rank else np.zeros((), kind)
            else:
                given[value.name] = np.ones(shape, kind)
        return given

    def by_runtime(self, inputs):
        import onnxruntime
        self.replace_stored()
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.log_severity_level = 3
        if self.model.ByteSize() < 1 << 30:
            session = onnxruntime.InferenceSession(self.model.SerializeToString(), options, ["CPUExecutionProvider"])
        else:
            import onnx
            path = os.path.join(sys.argv[1], "model.onnx")
            onnx.save(self.model, path, save_as_external_data=True, location="model.data")
            session = onnxruntime.InferenceSession(path, options, ["CPUExecutionProvider"])
        names = [o.name for o in session.get_outputs()]
        try:
            return dict(zip(names, session.run(names, self.feed(inputs))))
        except Exception:  # noqa: BLE001 - some ops of it do not broadcast along the batch
            rows = len(next(iter(inputs.values())))
            if self.request["infer"] or rows < 2:
                raise
        parts = [session.run(names[:1], self.feed(rows_of(inputs, i, 1)))[0] for i in range(rows)]
        return {names[0]: np.concatenate(parts)}

    def prepare_reading(self):
        import torch
        from onnx import numpy_helper
        import onnx_reading
        self.leaves = {n: torch.tensor(v, dtype=torch.float64, requires_grad=True) for n, v in self.values.items()}
        self.constants = {n: onnx_reading.tensor(numpy_helper.to_array(t)) for n, t in self.stored.items()
                          if n not in self.leaves}

    def outputs(self, inputs):
        import onnx_reading
        values = {**self.constants, **self.leaves}
        for name, array in self.feed(inputs).items():
            value = onnx_reading.tensor(array)
            values[name] = value.double() if value.is_floating_point() else value
        onnx_reading.run(self.model.graph, self.opset, values)
        return {o.name: values[o.name] for o in self.model.graph.output}

    def gradients(self):
        out = {}
        for name, leaf in self.leaves.items():
            source, turned = self.bound[name]
            grad = np.zeros(leaf.shape) if leaf.grad is None else leaf.grad.numpy()
            out[source] = out.get(source, 0) + (grad.T if turned else grad)
        return out


#===-- The whole --------------------------------------------------------------===#

def rows_of(arrays, first, count):
    return {name: value[first:first + count] for name, value in arrays.items()}


def train(model, inputs, rows, results):
    """Mean cross entropy over all labels that count, and its gradient; the first rows' outputs are
    those of the first call."""
    import torch
    labels = inputs.pop("labels").astype(np.int64)
    count = max(int((labels != IGNORED).sum()), 1)
    loss = 0.0
    for first in range(0, len(labels), rows):
        outputs = model.outputs(rows_of(inputs, first, rows))
        logits = next(iter(outputs.values()))
        part = torch.nn.functional.cross_entropy(
            logits.flatten(0, 1), torch.from_numpy(labels[first:first + rows]).flatten(),
            ignore_index=IGNORED, reduction="sum") / count
        part.backward()
        loss += part.item()
        if first == 0:
            results["output:logits"] = logits.detach().numpy()
    results["loss"] = np.array(loss)
    for name, gradient in model.gradients().items():
        results["gradient:" + name] = gradient


def main(folder):
    warnings.filterwarnings("ignore")
    os.environ.setdefault("TRANSFORMERS_OFFLINE", "1")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    with open(os.path.join(folder, "request.json")) as f:
        request = json.load(f)
    is_onnx = request["model"].endswith(".onnx")
    infer = request["infer"]
    need_for(is_onnx, infer)
    arrays = read_arrays(os.path.join(folder, "arrays.safetensors"))
    weights = {n[len("weight:"):]: v for n, v in arrays.items() if n.startswith("weight:")}
    inputs = {n[len("input:"):]: v for n, v in arrays.items() if n.startswith("input:")}
    rows, results, notes = request["rows"], {}, []
    model = (ByOnnx if is_onnx else ByConfig)(request, weights)
    if infer:
        outputs = model.by_runtime(inputs) if is_onnx else model.outputs(inputs)
        for name, value in outputs.items():
            results["output:" + name] = np.asarray(value if is_onnx else value.detach().numpy())
    elif is_onnx:
        import onnx_reading
        first = rows_of({n: v for n, v in inputs.items() if n != "labels"}, 0, rows)
        by_runtime = None
        try:
            by_runtime = next(iter(model.by_runtime(first).values()))
        except Exception as error:  # noqa: BLE001 - what ONNX Runtime does not build, PyTorch may read
            notes.append(f"no run in ONNX Runtime: {str(error).strip().splitlines()[0][:300]}")
        try:
            model.prepare_reading()
            train(model, inputs, rows, results)
            if by_runtime is not None:
                results["reading:logits"] = results["output:logits"]
        except onnx_reading.Unknown as unknown:
            notes.append(f"no loss and no gradients: {unknown} is not read in PyTorch")
        if by_runtime is not None:
            results["output:logits"] = by_runtime
    else:
        train(model, inputs, rows, results)
    if is_onnx and model.is_narrow():
        results["narrow"] = np.array(1.0)
    write_arrays(os.path.join(folder, "results.safetensors"), results)
    with open(os.path.join(folder, "notes.json"), "w") as f:
        json.dump(notes, f)


if __name__ == "__main__":
    main(sys.argv[1])
