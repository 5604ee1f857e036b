"""Masks are rules: whatever an exporter writes, the numbers are those of the mask's definition.

Each file has one attention over 1,100 tokens, whose mask is larger than what the importer always
holds, and is compared with NumPy in float64. At 131,072 tokens files compile in 1 GB.
"""
import os
import subprocess

import numpy as np

from harness import DATA, LLMC, Suite, below, call, gradient_errors, require, train
from onnx_write import Graph

WORDS, HEADS, DIM = 13, 2, 4
WIDTH = HEADS * DIM
LOWEST = float(np.finfo(np.float32).min)
SEQUENCE = 1100


class Attention(Graph):
    """A model of one attention. `mask(graph)` builds what `applied` puts on the scores."""

    def __init__(self, seed=1):
        super().__init__()
        random = np.random.default_rng(seed)
        self.weights = {name: random.standard_normal(shape).astype(np.float32) / 2 for name, shape in {
            "table": (WORDS, WIDTH), "query.weight": (WIDTH, WIDTH), "key.weight": (WIDTH, WIDTH),
            "value.weight": (WIDTH, WIDTH), "head.weight": (WIDTH, WORDS)}.items()}
        self.ids = self.input("input_ids", "int64", "batch", "sequence")
        self.size = self.op("Gather", self.op("Shape", self.ids), self.constant(1), axis=0)
        positions = self.op("Range", self.constant(0), self.size, self.constant(1))
        self.keys = self.op("Unsqueeze", positions, self.constant([0]))
        self.rows = self.op("Unsqueeze", positions, self.constant([1]))

    def number(self, value):
        return self.constant(value, np.float32)

    def heads(self, x, name):
        x = self.op("MatMul", x, self.weight(name, self.weights[name]))
        x = self.op("Reshape", x, self.constant([0, 0, HEADS, DIM]))
        return self.op("Transpose", x, perm=[0, 2, 1, 3])

    def finish(self, path, applied):
        x = self.op("Gather", self.weight("table", self.weights["table"]), self.ids)
        q, k, v = (self.heads(x, f"{name}.weight") for name in ("query", "key", "value"))
        scores = self.op("MatMul", q, self.op("Transpose", k, perm=[0, 1, 3, 2]))
        scores = self.op("Mul", scores, self.number(DIM ** -0.5))
        y = self.op("MatMul", self.op("Softmax", applied(scores), axis=-1), v)
        y = self.op("Reshape", self.op("Transpose", y, perm=[0, 2, 1, 3]), self.constant([0, 0, WIDTH]))
        self.output(self.op("MatMul", y, self.weight("head.weight", self.weights["head.weight"])), "logits",
                    "batch", "sequence", WORDS)
        self.write(path)


def reference(weights, ids, seen, hidden=-np.inf):
    """Logits in float64; `seen` broadcasts to [batch, rows, keys]."""
    w = {name: value.astype(np.float64) for name, value in weights.items()}
    x = w["table"][ids]
    q, k, v = (np.moveaxis((x @ w[f"{name}.weight"]).reshape(*ids.shape, HEADS, DIM), 2, 1)
               for name in ("query", "key", "value"))
    scores = q @ np.swapaxes(k, 2, 3) * DIM ** -0.5
    scores = np.where(np.broadcast_to(seen, (len(ids), *scores.shape[2:]))[:, None], scores, hidden)
    scores = np.exp(scores - np.maximum(scores.max(-1, keepdims=True), LOWEST)) # a row may see no key
    y = np.moveaxis(scores / np.maximum(scores.sum(-1, keepdims=True), 1e-300) @ v, 1, 2)
    return y.reshape(*ids.shape, WIDTH) @ w["head.weight"]


def rows_and_keys(size):
    return np.arange(size)[:, None], np.arange(size)[None, :]


# How a mask is put on the scores. Each takes the graph and the i1 of seen keys.
def chosen(g, seen, hidden=-np.inf):
    return lambda scores: g.op("Where", seen, scores, g.number(hidden))


def added(g, seen, hidden=LOWEST):
    mask = g.op("Where", seen, g.number(0), g.number(hidden))
    return lambda scores: g.op("Add", scores, mask)


def multiplied(g, seen, hidden=LOWEST):
    """(1 - seen) * hidden, added, as the first exporters wrote it."""
    mask = g.op("Mul", g.op("Sub", g.number(1), g.op("Cast", seen, to=1)), g.number(hidden))
    return lambda scores: g.op("Add", scores, mask)


def filled(g, seen, hidden=LOWEST):
    """masked_fill of the rest."""
    hides = g.op("Not", seen)
    return lambda scores: g.op("Where", hides, g.number(hidden), scores)


# What a mask sees. Each returns the graph's i1, and the same in NumPy.
def causal(g, i, j):
    return g.op("LessOrEqual", g.keys, g.rows), j <= i


def square(g):
    return g.op("Concat", *[g.op("Unsqueeze", g.size, g.constant([0]))] * 2, axis=0)


def triangle(g, i, j):
    ones = g.op("ConstantOfShape", square(g), value=np.ones(1, np.float32))
    lower = g.op("Trilu", ones, g.constant(0), upper=0)
    return g.op("Unsqueeze", g.op("Cast", lower, to=9), g.constant([0, 1])), j <= i


def window(g, i, j):
    near = g.op("Greater", g.keys, g.op("Sub", g.rows, g.constant(300)))
    return g.op("And", causal(g, i, j)[0], near), (j <= i) & (j > i - 300)


def prefix(g, i, j):
    return g.op("Or", causal(g, i, j)[0], g.op("Less", g.keys, g.constant(257))), (j <= i) | (j < 257)


def documents(g, i, j):
    """Tokens see those of their own document of 400."""
    of = lambda positions: g.op("Div", positions, g.constant(400))
    return g.op("And", g.op("Equal", of(g.keys), of(g.rows)), causal(g, i, j)[0]), (j <= i) & (i // 400 == j // 400)


def blocks(g, i, j):
    """All tokens see those of the blocks up to their own."""
    of = lambda positions: g.op("Div", positions, g.constant(64))
    return g.op("LessOrEqual", of(g.keys), of(g.rows)), j // 64 <= i // 64


def expanded(g, i, j):
    """[batch, 1, rows, keys], sliced where it is used."""
    batch = g.op("Slice", g.op("Shape", g.ids), g.constant([0]), g.constant([1]))
    shape = g.op("Concat", batch, g.constant([1]), square(g), axis=0)
    whole = g.op("Expand", g.op("Unsqueeze", causal(g, i, j)[0], g.constant([0, 1])), shape)
    return g.op("Slice", whole, g.constant([0]), g.op("Unsqueeze", g.size, g.constant([0])), g.constant([3])), j <= i


def assigned(g, i, j):
    """mask[:, :, :, :keys] = ..., which becomes a ScatterND."""
    one = g.constant([1])
    shape = g.op("Concat", one, one, square(g), axis=0)
    parts = []
    for dim, positions in enumerate([g.constant([0]), g.constant([0]), g.rows, g.keys]):
        column = g.op("Reshape", positions, g.constant([-1 if d == dim else 1 for d in range(4)]))
        parts.append(g.op("Unsqueeze", g.op("Expand", column, shape), g.constant([4])))
    data = g.op("Expand", g.op("Cast", g.number(1), to=9), shape)
    updates = g.op("Unsqueeze", causal(g, i, j)[0], g.constant([0, 1]))
    return g.op("ScatterND", data, g.op("Concat", *parts, axis=4), updates), j <= i


def buffer(g, i, j):
    """The `bias` of GPT-2, cut to the sequence."""
    stored = g.constant(np.tril(np.ones((1, 1, 1200, 1200), bool)))
    end = g.op("Unsqueeze", g.size, g.constant([0]))
    return g.op("Slice", g.op("Slice", stored, g.constant([0]), end, g.constant([2])), g.constant([0]), end,
                g.constant([3])), j <= i


def almost(g, i, j):
    """Causal, but for one element."""
    odd = g.op("And", g.op("Equal", g.rows, g.constant(700)), g.op("Equal", g.keys, g.constant(123)))
    return g.op("And", causal(g, i, j)[0], g.op("Not", odd)), (j <= i) & ~((i == 700) & (j == 123))


def almost_stored(g, i, j):
    seen = np.tril(np.ones((SEQUENCE, SEQUENCE), bool))
    seen[1000, 1] = False
    return g.constant(seen), seen


def drawn(g, i, j):
    """No rule at all; the diagonal is seen, so that no row is empty."""
    seen = (np.random.default_rng(7).random((SEQUENCE, SEQUENCE)) < 0.3) | (i == j)
    return g.constant(seen), seen


def batched(g, i, j):
    """[batch, rows, keys], then a dim of heads is inserted."""
    batch = g.op("Slice", g.op("Shape", g.ids), g.constant([0]), g.constant([1]))
    shape = g.op("Concat", batch, square(g), axis=0)
    return g.op("Unsqueeze", g.op("Expand", causal(g, i, j)[0], shape), g.constant([1])), j <= i


def turned(g, i, j):
    """Built with keys first, then transposed; flattened and shaped again."""
    whole = g.op("Transpose", g.op("GreaterOrEqual", g.rows, g.keys), perm=[1, 0])
    flat = g.op("Reshape", g.op("Transpose", whole, perm=[1, 0]), g.op("Concat", g.constant([1, 1]), square(g), axis=0))
    return flat, j <= i


def distances(g, i, j):
    """Of the difference of positions, in float32."""
    as_float = lambda x: g.op("Cast", x, to=1)
    distance = g.op("Sub", as_float(g.rows), as_float(g.keys))
    low = g.op("GreaterOrEqual", distance, g.number(0))
    return g.op("And", low, g.op("Less", distance, g.number(300))), (j <= i) & (j > i - 300)


def tokens(size, batch=2, seed=3):
    return np.random.default_rng(seed).integers(0, WORDS, (batch, size))


def run_infer(folder, path, arrays, size, *flags, batch=2):
    program, results, given = (os.path.join(folder, name) for name in ("program", "results", "in"))
    os.makedirs(given, exist_ok=True)
    call([LLMC, "compile", path, "--infer", "--dim", f"batch={batch},sequence={size}", "-o", program, *flags])
    names = []
    for name, value in arrays.items():
        np.save(os.path.join(given, name + ".npy"), value)
        names += ["--input", f"{name}={given}/{name}.npy"]
    call([program, *names, "--output", results])
    return np.load(os.path.join(results, "logits.npy")).astype(np.float64), program


def raised(folder, path, *flags):
    """The attention ops after phase 1, with their masks."""
    out = os.path.join(folder, "raised.mlir")
    call([LLMC, "compile", path, "--compile-to", "raise", "-o", out, *flags])
    with open(out) as f:
        return [line for line in f if "graph.attention" in line]


def equals(folder, mask, put, rule, mesh="1"):
    """--infer equals NumPy; the attention has the attributes `rule`, and none of another mask."""
    path = os.path.join(folder, "model.onnx")
    g = Attention()
    seen, expected = mask(g, *rows_and_keys(SEQUENCE))
    g.finish(path, put(g, seen))
    ids = tokens(SEQUENCE)
    got, _ = run_infer(folder, path, {"input_ids": ids}, SEQUENCE, "--mesh", mesh)
    wanted = reference(g.weights, ids, expected)
    ops = raised(folder, path, "--infer", "--dim", f"batch=2,sequence={SEQUENCE}")
    require(len(ops) >= 1, "no attention was recognised")
    found = [word for word in ("causal = true", "window = 300") if any(word in op for op in ops)]
    masked = any(op.count("tensor<") > 5 for op in ops)
    require((found, masked) == rule, f"the attention has {found}, {'a' if masked else 'no'} mask: {ops}")
    return below(np.abs(got - wanted).max() / np.abs(wanted).max(), 1e-5, "error")


def padded(folder, put, hidden, left, mesh):
    """The causal mask and the attention_mask of an input: padding on one side of each row."""
    path = os.path.join(folder, "model.onnx")
    g = Attention()
    given = g.op("Cast", g.input("attention_mask", "int64", "batch", "sequence"), to=9)
    i, j = rows_and_keys(SEQUENCE)
    seen = g.op("And", g.op("Unsqueeze", causal(g, i, j)[0], g.constant([0, 1])),
                g.op("Unsqueeze", given, g.constant([1, 2])))
    g.finish(path, put(g, seen, hidden))
    ids, lengths = tokens(SEQUENCE), np.array([900, 1100])
    mask = np.arange(SEQUENCE)[None] < lengths[:, None]
    mask = mask[:, ::-1] if left else mask
    arrays = {"input_ids": ids, "attention_mask": mask.astype(np.int64)}
    got, _ = run_infer(folder, path, arrays, SEQUENCE, "--mesh", mesh)
    wanted = reference(g.weights, ids, (j <= i) & mask[:, None, :], hidden)
    shown = mask if np.isinf(hidden) else np.ones_like(mask) # else such rows weigh all keys alike
    ops = raised(folder, path, "--infer", "--dim", f"batch=2,sequence={SEQUENCE}")
    require(all("causal = true" in op and "tensor<2x1x1x1100xi1>" in op for op in ops), f"{ops}")
    return below(np.abs(got - wanted)[shown].max() / np.abs(wanted[shown]).max(), 1e-5, "error")


def behind_past(folder, past):
    """Queries behind a cache: rows and keys differ in number, and the first row sees past + 1 keys."""
    path = os.path.join(folder, "model.onnx")
    g = Attention()
    end = g.op("Add", g.size, g.constant(past))
    keys = g.op("Unsqueeze", g.op("Range", g.constant(0), end, g.constant(1)), g.constant([0]))
    seen = g.op("LessOrEqual", keys, g.op("Add", g.rows, g.constant(past)))
    cut = g.op("Slice", seen, g.constant([past]), g.op("Unsqueeze", end, g.constant([0])), g.constant([1]))
    # The keys of the cache are cut off again, so that only the offsets are tested.
    g.finish(path, added(g, cut))
    ids = tokens(SEQUENCE)
    got, _ = run_infer(folder, path, {"input_ids": ids}, SEQUENCE)
    i, j = rows_and_keys(SEQUENCE)
    wanted = reference(g.weights, ids, j + past <= i + past)
    return below(np.abs(got - wanted).max() / np.abs(wanted).max(), 1e-5, "error")


def trains(folder, mask, meshes):
    """Loss as in NumPy; gradients and weights of several ranks are those of one."""
    path, tokens_file = os.path.join(folder, "model.onnx"), os.path.join(folder, "tokens")
    g = Attention()
    seen, expected = mask(g, *rows_and_keys(SEQUENCE))
    g.finish(path, added(g, seen))
    ids = tokens(SEQUENCE)
    labels = np.roll(ids, -1, 1)
    labels[:, -1] = -100
    given = []
    for name, value in (("input_ids", ids), ("labels", labels)):
        np.save(os.path.join(folder, name + ".npy"), value)
        given += ["--input", f"{name}={folder}/{name}.npy"]
    logits = reference(g.weights, ids, expected)
    logits -= np.log(np.exp(logits).sum(-1, keepdims=True))
    loss = -np.mean([logits[b, at, labels[b, at]] for b, at in np.argwhere(labels != -100)])
    dumps = []
    for mesh in ["1", *meshes]:
        program = os.path.join(folder, "program-" + mesh)
        call([LLMC, "compile", path, "-o", program, "--seq", SEQUENCE, "--global-batch", 2, "--mesh", mesh])
        dumps.append(train(program, folder, *given, "--steps", 1))
        below(abs(float(dumps[-1]["loss"][0]) - loss) / loss, 1e-5, f"error of the loss on {mesh}")
    worst = 0
    for kind in ("grad:", "param:"):
        one = {name: value for name, value in dumps[0].items() if name.startswith(kind)}
        require(len(one) >= 5, f"{sorted(dumps[0])}")
        for other in dumps[1:]:
            worst = max(worst, *gradient_errors(other, one).values())
    return below(worst, 2e-5, "error of gradients and weights")


LONG = 131072
GIGABYTE = 1000 ** 3


def long_compile(folder, build, *flags):
    """131,072 tokens compile in 1 GB."""
    path = os.path.join(folder, "model.onnx")
    if callable(build):
        g = Attention()
        seen, _ = build(g, *rows_and_keys(2))
        g.finish(path, added(g, seen))
    else:
        path = build
    command = [LLMC, "compile", path, "-o", os.path.join(folder, "program"), *map(str, flags)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    said = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    require(status == 0, f"status {status}: {said[-1500:]}")
    require(usage.ru_maxrss * 1024 <= GIGABYTE, f"it took {usage.ru_maxrss / 1024:.0f} MiB")
    return f"{usage.ru_maxrss / 1024:.0f} MiB"


def refused(folder):
    """A mask of 131,072 tokens that is no rule names itself, its size and what would help."""
    path = os.path.join(folder, "model.onnx")
    g = Attention()
    distance = g.op("Cast", g.op("Abs", g.op("Sub", g.rows, g.keys)), to=1)
    bias = g.op("Mul", distance, g.number(-0.5))
    g.finish(path, lambda scores: g.op("Add", scores, bias))
    done = call([LLMC, "compile", path, "-o", os.path.join(folder, "program"), "--seq", LONG], check=False)
    require(done.returncode == 1, f"exit {done.returncode}")
    for word in ("model.onnx", "(Add)", "[131072, 131072]", "64 GiB", "--seq", "follows no rule"):
        require(word in done.stderr, f"does not say {word}: {done.stderr}")
    ids = tokens(SEQUENCE)
    program = os.path.join(folder, "program")
    done = call([LLMC, "compile", path, "--infer", "--dim", f"batch=2,sequence={SEQUENCE}", "-o", program])
    require("5 MiB" in done.stderr and "follows no rule" in done.stderr, done.stderr)
    i, j = rows_and_keys(SEQUENCE)
    got, _ = run_infer(folder, path, {"input_ids": ids}, SEQUENCE)
    require(np.isfinite(got).all(), "not finite")


CAUSAL, WINDOW = (["causal = true"], False), (["causal = true", "window = 300"], False)
NONE, MASKED, BOTH = ([], False), ([], True), (["causal = true"], True)
suite = Suite("masks")
for put in (chosen, added, multiplied, filled):
    suite.run(f"causal, {put.__name__}", equals, causal, put, CAUSAL)
suite.run("causal, -1e4", equals, causal, lambda g, seen: multiplied(g, seen, -1e4), CAUSAL)
for mask, rule in ((triangle, CAUSAL), (batched, CAUSAL), (turned, CAUSAL), (distances, WINDOW), (window, WINDOW), (prefix, CAUSAL), (documents, CAUSAL), (blocks, MASKED),
                   (expanded, CAUSAL), (assigned, CAUSAL), (buffer, CAUSAL), (almost, MASKED),
                   (almost_stored, MASKED), (drawn, MASKED)):
    suite.run(f"{mask.__name__}, added", equals, mask, added, rule)
for mesh in ("1x1x2", "2x1x1"):
    suite.run(f"prefix on {mesh}", equals, prefix, chosen, CAUSAL, mesh)
for mesh in ("1", "2x1x1", "1x1x2"):
    suite.run(f"padded by an input on {mesh}", padded, chosen, -np.inf, False, mesh)
suite.run("padded on the left", padded, chosen, -np.inf, True, "1")
for put in (added, multiplied, filled):
    suite.run(f"padded on the left, {put.__name__} as a finite number", padded, put, LOWEST, True, "1")
suite.run("padded on the left, a finite number, on 2x1x2", padded, added, LOWEST, True, "2x1x2")
suite.run("behind a past of 37", behind_past, 37)
for mask in (causal, prefix, almost):
    suite.run(f"{mask.__name__} trains", trains, mask, ["2x1x1", "1x1x2"])
for mask in (causal, window, prefix, documents, assigned):
    suite.run(f"131072 tokens, {mask.__name__}", long_compile, mask, "--seq", LONG)
for name in ("llama/dynamo-18-mask", "mistral/ts-17-mask", "gemma2/dynamo-23"):
    path = os.path.join(DATA, "models", name, "model.onnx")
    suite.run(f"131072 tokens, {name}", long_compile, path, "--seq", LONG)
    suite.run(f"131072 tokens, {name}, --infer", long_compile, path, "--infer", "--dim", f"batch=1,sequence={LONG}")
suite.run("a bias that is no rule", refused)
suite.finish()
