"""Edits ONNX files on the wire, so that broken models need no ONNX package."""


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def encode(value):
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def fields(data):
    """(number, wire type, value) of a message; value is bytes or int."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        number, kind = key >> 3, key & 7
        if kind == 0:
            value, at = varint(data, at)
        else:
            size = {1: 8, 5: 4}.get(kind)
            if size is None:
                size, at = varint(data, at)
            value, at = data[at:at + size], at + size
        yield number, kind, value


def join(parts):
    out = b""
    for number, kind, value in parts:
        out += encode(number << 3 | kind)
        if kind == 0:
            out += encode(value)
        else:
            out += (encode(len(value)) if kind == 2 else b"") + value
    return out


def edit(source, target, edit_graph):
    with open(source, "rb") as f:
        model = list(fields(f.read()))
    model = [(n, k, join(edit_graph(list(fields(v)))) if n == 7 else v) for n, k, v in model]
    with open(target, "wb") as f:
        f.write(join(model))


def with_unknown_ops(source, target, count):
    """Renames the operator of `count` MatMul or Gemm nodes; returns the nodes' names."""
    names = []

    def graph(parts):
        result = []
        for number, kind, value in parts:
            if number == 1 and len(names) < count:
                node = list(fields(value))
                if any(n == 4 and v in (b"MatMul", b"Gemm") for n, _, v in node):
                    names.append(next(v for n, _, v in node if n == 3).decode())
                    node = [(n, k, b"Frobnicate%d" % len(names) if n == 4 else v) for n, k, v in node]
                    value = join(node)
            result.append((number, kind, value))
        return result

    edit(source, target, graph)
    return names + ["Frobnicate1", f"Frobnicate{count}"]


def with_external_data(source, target, location):
    """Moves the largest initializer to a file that does not exist."""
    def graph(parts):
        largest = max((p for p in parts if p[0] == 5), key=lambda p: len(p[2]))
        tensor = [f for f in fields(largest[2]) if f[0] not in (4, 9)]
        entry = join([(1, 2, b"location"), (2, 2, location.encode())])
        moved = join(tensor + [(13, 2, entry), (14, 0, 1)])
        return [(n, k, moved if v is largest[2] else v) for n, k, v in parts]

    edit(source, target, graph)


def input_dims(path):
    """Name -> dims of the graph's inputs: a number, a symbol's name, or None."""
    def only(message, number):
        return [value for n, _, value in fields(message) if n == number]

    with open(path, "rb") as f:
        graph = only(f.read(), 7)[0]
    initializers = {only(tensor, 8)[0] for tensor in only(graph, 5)}
    result = {}
    for value in only(graph, 11):
        name, dims = only(value, 1)[0], []
        for tensor in [t for kind in only(value, 2) for t in only(kind, 1)]:
            for dim in [d for shape in only(tensor, 2) for d in only(shape, 1)]:
                number, symbol = only(dim, 1), only(dim, 2)
                dims.append(symbol[0].decode() if symbol else number[0] if number else None)
        if name not in initializers: # old files list weights as inputs too
            result[name.decode()] = dims
    return result
