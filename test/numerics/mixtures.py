"""com.microsoft.MoE in every form that ONNX Runtime's CPU kernel and its documentation define: equal to NumPy on
one rank, on two that share out features or experts, raised and not; what is not supported says why."""
import os

import numpy as np

from harness import LLMC, Suite, below, call, inspect, require
from onnx_write import Graph

WORDS, WIDTH, INNER, EXPERTS, ROWS, TOKENS = 11, 8, 6, 4, 2, 5


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def swiglu(g, l, a):
    limit = a.get("swiglu_limit", np.inf)
    g, l = np.minimum(g, limit), np.clip(l, -limit, limit)
    return g * sigmoid(a.get("activation_alpha", 1.0) * g) * (l + a.get("activation_beta", 0.0))


PLAIN = {"relu": lambda x: np.maximum(x, 0), "silu": lambda x: x * sigmoid(x), "identity": lambda x: x,
         "gelu": lambda x: x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x ** 3))) / 2}


class Mixture:
    """A table, a router and one MoE: `flat` gives it tokens [rows, width], else [batch, sequence, width]. By the
    largest of `others` scores all is multiplied: a choice that routes to no expert. It is `spread`: scattered to
    where it was chosen, and projected."""

    def __init__(self, k, activation, flat=False, biases=True, gate=False, others=0, spread=False, **attributes):
        self.k, self.activation, self.flat, self.gate, self.spread = k, activation, flat, gate, spread
        self.attributes = attributes
        draw = np.random.default_rng(5).normal
        self.fusion = attributes.get("swiglu_fusion", 0)
        up = (2 if self.fusion else 1) * INNER
        self.weights = {"table": draw(size=(WORDS, WIDTH)), "router": draw(size=(WIDTH, EXPERTS)),
                        "up": draw(size=(EXPERTS, up, WIDTH)), "down": draw(size=(EXPERTS, WIDTH, INNER))}
        if biases:
            self.weights |= {"up_bias": draw(size=(EXPERTS, up)), "down_bias": draw(size=(EXPERTS, WIDTH))}
        if gate:
            self.weights["gate"] = draw(size=(EXPERTS, INNER, WIDTH))
        if others:
            self.weights["others"] = draw(size=(WIDTH, others))
        self.weights = {name: value.astype(np.float32) for name, value in self.weights.items()}

    def write(self, path):
        g = Graph()
        ids = g.input("ids", "int64", "batch", "sequence")
        for name, value in self.weights.items():
            g.weight(name, value)
        embedded = g.op("Gather", "table", ids)
        rows = g.op("Reshape", embedded, g.constant([-1, WIDTH], "int64"))
        given = [name if name in self.weights else "" for name in ("up", "up_bias", "down", "down_bias", "gate")]
        while not given[-1]:
            given.pop()
        y = g.op("MoE", rows if self.flat else embedded, g.op("MatMul", rows, "router"), *given,
                 domain="com.microsoft", k=self.k, activation_type=self.activation, **self.attributes)
        if "others" in self.weights:
            scores = g.op("MatMul", rows, "others")
            largest = g.op("TopK", scores, g.constant([1], "int64"), axis=-1)
            if self.spread:
                places = g.op("ArgMax", scores, axis=-1, keepdims=1)
                zeros = g.op("Mul", scores, g.constant(0, "float32"))
                largest = g.op("MatMul", g.op("ScatterElements", zeros, places, largest, axis=-1),
                               g.op("Transpose", "others", perm=[1, 0]))
            y = g.op("Mul", g.op("Reshape", y, g.constant([-1, WIDTH], "int64")), largest)
        g.output(g.op("Reshape", y, g.op("Shape", embedded)), "logits", "batch", "sequence", WIDTH)
        g.write(path)

    def hidden(self, x, e):
        w = {name: value.astype(np.float64) for name, value in self.weights.items()}
        up = w["up"][e] @ x + (w["up_bias"][e] if "up_bias" in w else 0)
        if self.activation == "swiglu":
            parts = ((up[0::2], up[1::2]) if self.fusion == 1 else (up[:INNER], up[INNER:]) if self.fusion == 2
                     else (up, w["gate"][e] @ x))
            return swiglu(*parts, self.attributes)
        return PLAIN[self.activation](up) * (w["gate"][e] @ x if self.gate else 1)

    def expected(self, ids):
        w = {name: value.astype(np.float64) for name, value in self.weights.items()}
        x = w["table"][ids]
        y = np.zeros_like(x)
        for at in np.ndindex(ids.shape):
            scores = np.exp(x[at] @ w["router"])
            scores /= scores.sum()
            best = np.argsort(-scores, kind="stable")[:self.k]
            shares = scores[best] / (scores[best].sum() if self.attributes.get("normalize_routing_weights") else 1)
            for e, share in zip(best, shares):
                y[at] += share * (w["down"][e] @ self.hidden(x[at], e) + (w["down_bias"][e] if "down_bias" in w else 0))
            if "others" in w:
                y[at] *= (x[at] @ w["others"]).max()
        return y


def equal(folder, mixture, mesh, *flags):
    path, program, results = (os.path.join(folder, name) for name in ("model.onnx", "program", "results"))
    mixture.write(path)
    call([LLMC, "compile", path, "--infer", "--mesh", mesh, "--dim", f"batch={ROWS},sequence={TOKENS}", "-o", program,
          *flags])
    if "off" not in flags:
        require("mixture x1" in inspect(program)["model"]["blocks"], f"{inspect(program)['model']['blocks']}")
    ids = np.random.default_rng(3).integers(0, WORDS, (ROWS, TOKENS))
    np.save(os.path.join(folder, "ids.npy"), ids)
    call([program, "--input", f"ids={folder}/ids.npy", "--output", results])
    got, wanted = np.load(os.path.join(results, "logits.npy")), mixture.expected(ids)
    return below(np.max(np.abs(got - wanted)) / np.max(np.abs(wanted)), 1e-5, "error")


def verified(folder, mixture, mesh, *flags):
    path = os.path.join(folder, "model.onnx")
    mixture.write(path)
    done = call([LLMC, "verify", path, "--mesh", mesh, "--dim", f"batch={ROWS},sequence={TOKENS}", *flags], check=False)
    require(done.returncode == 0, f"exit {done.returncode}: {done.stdout[-2000:]} {done.stderr[-2000:]}")


def refused(folder, mixture, *words):
    path = os.path.join(folder, "model.onnx")
    mixture.write(path)
    done = call([LLMC, "compile", path, "-o", os.path.join(folder, "program"), "--seq", TOKENS], check=False)
    require(done.returncode == 1, f"exit {done.returncode}: {done.stderr}")
    for word in ("model.onnx", "MoE_", *words):
        require(word in done.stderr, f"does not say {word}: {done.stderr}")


def misshapen(name):
    mixture = Mixture(2, "silu")
    mixture.weights[name] = mixture.weights[name][..., :-1]
    return mixture


SWIGLU = dict(activation_alpha=1.702, activation_beta=1.0)
CASES = {
    "relu, one expert": Mixture(1, "relu"),
    "gelu, normalised": Mixture(2, "gelu", flat=True, normalize_routing_weights=1),
    "silu without biases": Mixture(3, "silu", biases=False, normalize_routing_weights=1),
    "identity": Mixture(2, "identity", flat=True),
    "silu, gated": Mixture(2, "silu", biases=False, gate=True, normalize_routing_weights=1),
    "swiglu, apart": Mixture(2, "swiglu", gate=True, swiglu_fusion=0, **SWIGLU),
    "swiglu, interleaved and limited": Mixture(2, "swiglu", swiglu_fusion=1, swiglu_limit=1.5, **SWIGLU),
    "swiglu, concatenated": Mixture(2, "swiglu", flat=True, biases=False, swiglu_fusion=2, normalize_routing_weights=1),
}

suite = Suite("mixtures")
for title, mixture in CASES.items():
    for mesh, flags in (("1", []), ("1x1x2", []), ("2x1x1", ["--ep", "2"]), ("1", ["--raise", "off"])):
        suite.run(" ".join([f"{title} on {mesh}", *flags]), equal, mixture, mesh, *flags)
suite.run("another choice beside, --ep 2", equal, Mixture(2, "silu", others=3), "2x1x1", "--ep", "2")
suite.run("another choice beside, all checks", verified, Mixture(2, "silu", flat=True, others=3), "2x1x1", "--ep", "2", "--moe-budget", "1.5")
suite.run("another choice, spread, in bf16", verified, Mixture(2, "silu", flat=True, others=3, spread=True), "2x1x1", "--precision",
          "bf16")
suite.run("more experts for a token than there are", refused, Mixture(5, "silu"), "k = 5", "of 4")
suite.run("no expert for a token", refused, Mixture(0, "silu"), "k = 0")
suite.run("an unknown activation", refused, Mixture(1, "tanh"), "activation_type 'tanh'", "relu, gelu, silu")
suite.run("a sparse mixer", refused, Mixture(2, "silu", use_sparse_mixer=1), "use_sparse_mixer")
suite.run("a limit of what is activated", refused, Mixture(2, "swiglu", swiglu_fusion=1, swiglu_limit_after_activation=1),
          "swiglu_limit_after_activation")
suite.run("swiglu with one product of two", refused, Mixture(2, "swiglu"), "swiglu_fusion = 0", "fc3_experts_weights")
suite.run("another layout", refused, Mixture(2, "swiglu", swiglu_fusion=3), "swiglu_fusion is 3")
for name, word in (("up_bias", "fc1_experts_bias of shape [4, 5] must be floats [4, 6]"),
                   ("down_bias", "fc2_experts_bias of shape [4, 7]"), ("down", "fc1_experts_weights"),
                   ("router", "router_probs of shape [5, 3] must be floats [5, 4]")):
    suite.run(f"{name} of another shape", refused, misshapen(name), word)
suite.finish()
