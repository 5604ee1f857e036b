"""One stored tensor that many layers use, on all stages: `--tie exact` trains it as one, on every mesh."""
import json
import os

import numpy as np

from harness import LLMC, Suite, call, require
from onnx_write import Graph

VOCAB, WIDTH, SEQ = 24, 16, 8


def write_model(path, layers, kinds, behind):
    """Writes layers y = x + place, y + kind(norm(y) A + bias) B + bias: `bias`, `place` and both weights of the norm are
    one tensor for all of them, also for the end if `behind`. Tensor parallelism would cut the bias with the columns of
    A, and not behind the rows of B."""
    rng = np.random.default_rng(5)
    graph = Graph()

    def draw(name, *shape):
        return graph.weight(name, rng.normal(0, 0.4, shape))
    ids = graph.input("input_ids", "int64", "batch", SEQ)
    table = draw("table", VOCAB, WIDTH)
    place = draw("place", 1, SEQ, WIDTH) # with one row, its gradient is that of what layers carry
    scale, shift, bias = draw("scale", WIDTH), draw("shift", WIDTH), draw("bias", WIDTH)
    x = graph.op("Gather", table, ids, axis=0)
    for layer in range(layers):
        x = graph.op("Add", x, place)
        h = graph.op("LayerNormalization", x, scale, shift, axis=-1, epsilon=1e-5)
        h = graph.op("Add", graph.op("MatMul", h, draw(f"a{layer}", WIDTH, WIDTH)), bias)
        h = graph.op("MatMul", graph.op(kinds[layer % len(kinds)], h), draw(f"b{layer}", WIDTH, WIDTH))
        x = graph.op("Add", x, graph.op("Add", h, bias))
    if behind:
        x = graph.op("Add", graph.op("LayerNormalization", x, scale, shift, axis=-1, epsilon=1e-5), bias)
    logits = graph.op("MatMul", x, graph.op("Transpose", table, perm=[1, 0]))
    graph.output(logits, "logits", "batch", SEQ, VOCAB)
    graph.write(path)


def verified(folder, kinds, behind, mesh, *flags):
    path = os.path.join(folder, "model.onnx")
    write_model(path, 4, kinds, behind)
    done = call([LLMC, "verify", path, "--mesh", mesh, "--tie", "exact", "--json", *flags], check=False)
    require(done.returncode in (0, 3), f"exit {done.returncode}: {done.stderr[-2000:]}")
    report = json.loads(done.stdout)
    failed = [f"{c['name']} {c['value']} > {c['limit']} {c['subject']}" for c in report["checks"] if not c["passed"]]
    require(done.returncode == 0 and not failed, "\n".join(failed))
    worst = {kind: max((c["value"], c["subject"]) for c in report["checks"] if c["name"].endswith("updates:adamw:" + kind))
             for kind in ("fp64", "kernels")}
    return f"{len(report['checks'])} checks; updates: {worst}"


suite = Suite("tied")
for kinds, behind in [(("Relu",), False), (("Relu",), True), (("Relu", "Tanh"), True)]:
    for mesh, *flags in [("2x2x1",), ("1x1x2", "--sequence-parallel", "on"), ("1x4x1", "--zero", 0), ("2x2x2", "--zero", 3), ("1x2x2", "--virtual-stages", 2),
                         ("2x2x1", "--zero", 2, "--schedule", "zero-bubble"), ("1x2x1", "--stages", f"{3 // len(kinds)},1", "--recompute", "full"),
                         ("2x2x1", "--precision", "bf16", "--zero", 1)]:
        name = f"{len(kinds)} kinds of layers, {'also' if behind else 'not'} behind them, on {mesh} {' '.join(map(str, flags))}"
        suite.run(name, verified, kinds, behind, mesh, *flags)
suite.finish()
