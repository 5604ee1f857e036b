"""JAX: with_jax.py WORK train|infer DEVICES ITERATIONS -> one JSON line.

With 4 devices: 2 data x 2 tensor, the weights cut as Megatron cuts them, the rest by GSPMD.
"""
import json
import math
import os
import resource
import sys
import time

DEVICES = int(sys.argv[3])
os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + f" --xla_force_host_platform_device_count={DEVICES}"
os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

from shapes import WORKS


def rows_of(w):
    """Rows of a table of words; JAX cuts it between two devices only if they divide."""
    return w.words + (w.words % 2 if DEVICES > 1 else 0)


def parameters(w, rng):
    def normal(*shape):
        return (rng.standard_normal(shape) * 0.02).astype(np.float32)
    d, head = w.width, w.width // w.heads
    tree, cut = {"words": normal(rows_of(w), d)}, {"words": P("tp", None)}
    ones, zeros = (lambda *s: np.ones(s, np.float32)), (lambda *s: np.zeros(s, np.float32))
    layers, cuts = [], []
    for _ in range(w.layers):
        if w.kind == "gpt2":
            layers.append({"n1": ones(d), "c1": zeros(d), "n2": ones(d), "c2": zeros(d),
                           "q": normal(d, w.heads, head), "k": normal(d, w.heads, head), "v": normal(d, w.heads, head),
                           "bq": zeros(w.heads, head), "bk": zeros(w.heads, head), "bv": zeros(w.heads, head),
                           "o": normal(w.heads, head, d), "bo": zeros(d),
                           "up": normal(d, w.inner), "bup": zeros(w.inner), "down": normal(w.inner, d), "bdown": zeros(d)})
            cuts.append({"n1": P(), "c1": P(), "n2": P(), "c2": P(), "q": P(None, "tp"), "k": P(None, "tp"), "v": P(None, "tp"),
                         "bq": P("tp"), "bk": P("tp"), "bv": P("tp"), "o": P("tp"), "bo": P(),
                         "up": P(None, "tp"), "bup": P("tp"), "down": P("tp"), "bdown": P()})
        else:
            layers.append({"n1": ones(d), "n2": ones(d), "q": normal(d, w.heads, head), "k": normal(d, w.kv_heads, head),
                           "v": normal(d, w.kv_heads, head), "o": normal(w.heads, head, d), "gate": normal(d, w.inner),
                           "up": normal(d, w.inner), "down": normal(w.inner, d)})
            cuts.append({"n1": P(), "n2": P(), "q": P(None, "tp"), "k": P(None, "tp"), "v": P(None, "tp"), "o": P("tp"),
                         "gate": P(None, "tp"), "up": P(None, "tp"), "down": P("tp")})
    tree["layers"], cut["layers"] = layers, cuts
    tree["norm"], cut["norm"] = ones(d), P()
    if w.kind == "gpt2":
        tree["bias"], cut["bias"] = zeros(d), P()
        tree["positions"], cut["positions"] = normal(w.tokens, d), P()
    else:
        tree["head"], cut["head"] = normal(rows_of(w), d), P("tp", None)
    return tree, cut


def layer_norm(x, scale, bias):
    mean = x.mean(-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(((x - mean) ** 2).mean(-1, keepdims=True) + 1e-5) * scale + bias


def rms_norm(x, scale):
    return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5) * scale


def forward(w, p, ids):
    x = p["words"][ids]
    if w.kind == "gpt2":
        x = x + p["positions"]
    else:
        dim = w.width // w.heads
        angles = jnp.outer(jnp.arange(w.tokens), 10000.0 ** (-jnp.arange(0, dim, 2) / dim))
        cos, sin = jnp.cos(angles)[:, None], jnp.sin(angles)[:, None]

    def rotate(t):
        a, b = jnp.split(t, 2, -1)
        return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], -1)
    for q in p["layers"]:
        if w.kind == "gpt2":
            h = layer_norm(x, q["n1"], q["c1"])
            a, b, c = (jnp.einsum("bsd,dhe->bshe", h, q[n]) + q["b" + n] for n in "qkv")
            o = jax.nn.dot_product_attention(a, b, c, is_causal=True)
            x = x + jnp.einsum("bshe,hed->bsd", o, q["o"]) + q["bo"]
            h = layer_norm(x, q["n2"], q["c2"])
            x = x + jax.nn.gelu(h @ q["up"] + q["bup"], approximate=True) @ q["down"] + q["bdown"]
        else:
            h = rms_norm(x, q["n1"])
            a, b, c = (jnp.einsum("bsd,dhe->bshe", h, q[n]) for n in "qkv")
            o = jax.nn.dot_product_attention(rotate(a), rotate(b), c, is_causal=True)
            x = x + jnp.einsum("bshe,hed->bsd", o, q["o"])
            h = rms_norm(x, q["n2"])
            x = x + (jax.nn.silu(h @ q["gate"]) * (h @ q["up"])) @ q["down"]
    x = layer_norm(x, p["norm"], p["bias"]) if w.kind == "gpt2" else rms_norm(x, p["norm"])
    logits = x @ (p["words"] if w.kind == "gpt2" else p["head"]).T
    return logits if rows_of(w) == w.words else jnp.where(jnp.arange(rows_of(w)) < w.words, logits, -jnp.inf)


def main():
    work, mode, iterations = WORKS[sys.argv[1]], sys.argv[2], int(sys.argv[4])
    rng = np.random.default_rng(0)
    tree, cut = parameters(work, rng)
    mesh = Mesh(np.array(jax.devices()[:DEVICES]).reshape(DEVICES // 2 or 1, 2 if DEVICES > 1 else 1), ("dp", "tp"))
    place = lambda t, c: jax.device_put(t, NamedSharding(mesh, c))
    params = jax.tree.map(place, tree, cut)
    ids = rng.integers(0, work.words, (work.rows, work.tokens + 1)).astype(np.int32)
    x, y = (place(np.ascontiguousarray(a), P("dp")) for a in (ids[:, :-1], ids[:, 1:]))

    def loss_of(p, x, y):
        logits = forward(work, p, x)
        return (jax.nn.logsumexp(logits, -1) - jnp.take_along_axis(logits, y[..., None], -1)[..., 0]).mean()

    def train(p, m, v, t, x, y):
        loss, g = jax.value_and_grad(loss_of)(p, x, y)
        norm = jnp.sqrt(sum((a * a).sum() for a in jax.tree.leaves(g)))
        g = jax.tree.map(lambda a: a * jnp.minimum(1.0, 1.0 / (norm + 1e-6)), g)
        m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, g)
        v = jax.tree.map(lambda v, g: 0.95 * v + 0.05 * g * g, v, g)
        def update(p, m, v):
            mean, square = m / (1 - 0.9 ** t), v / (1 - 0.95 ** t)
            return p - 3e-4 * (mean / (jnp.sqrt(square) + 1e-8) + (0.1 * p if p.ndim > 1 else 0))
        return jax.tree.map(update, p, m, v), m, v, loss
    if mode == "train":
        zeros = lambda: jax.tree.map(lambda t, c: place(np.zeros_like(t), c), tree, cut)
        m, v = zeros(), zeros()
        fast = jax.jit(train, donate_argnums=(0, 1, 2))
    else:
        fast = jax.jit(lambda p, x: forward(work, p, x))
    times = []
    for t in range(iterations + 2):
        start = time.perf_counter()
        if mode == "train":
            params, m, v, last = fast(params, m, v, jnp.float32(t + 1), x, y)
        else:
            last = fast(params, x)
        last = float(np.asarray(jax.block_until_ready(last)).ravel()[-1])
        times.append(time.perf_counter() - start)
    assert math.isfinite(last)
    print(json.dumps({"times": times[2:], "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}))


main()
