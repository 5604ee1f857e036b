#!/usr/bin/env python3
"""Times the fused kernels of a Llama for a card beside PyTorch's and JAX's: gpu_kernels.py.

    gpu_kernels.py --program OUT --check LLMC_GPU_CHECK [--json FILE] [--cpu]

OUT is a Llama in bf16 with --cuda-kernels; its config.json's sizes are given by --tokens,
--hidden, --intermediate, --vocab. LLMC_GPU_CHECK is build/bin/llmc-gpu-check, which also
compares each kernel with the CPU's. PyTorch runs eagerly and compiled, JAX under jit, each on
the same shapes, types and card, with a cold cache; medians of 20 in microseconds. --cpu tries
the peers' code where no card is. Exit 77 without a card.
"""
import argparse
import json
import re
import statistics
import subprocess
import sys
import time

REPEATS = 20
# Names the kernels of a program that do the work of each row, by a pattern that matches one.
OURS = {
    "rms_norm": [r"rms_norm"],
    "add + rms_norm": [r"add_rms_norm"],
    "silu(gate) * up": [r"sigmoid_mul_mul"],
    "gradient of silu(gate) * up": [r"mul_mul_mul_mul_constant_sub_mul_mul_add"],
    "gradient of add + rms_norm": [r"add_rms_norm_grad_cast_mul_add", r"cast_mul_reduce"],
    "cross-entropy and its gradient": [r"cast_reduce_reshape_cast_sub_exp_reduce", r"take_along",
                                       r"cast_sub_exp_one_hot_mul_sub_cast"],
    "AdamW with masters": [r"mul_adamw_cast"],
}


def measure_ours(options):
    """Microseconds by kernel, and the check's own text."""
    done = subprocess.run([options.check, options.program, "--repeats", str(REPEATS)],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    print(done.stdout, flush=True)
    if done.returncode == 77:
        return None
    times = {}
    for line in done.stdout.splitlines():
        found = re.match(r"\s+(ok|WRONG)\s+\S+\s+([\d.]+)\s+([\d.]+)\s+(\d+)%\s+([^\s:]+)", line)
        if found:
            times[found[5]] = float(found[2])
    rows = {}
    for name, kernels in OURS.items():
        if all(k in times for k in kernels):
            rows[name] = sum(times[k] for k in kernels)
    return rows


def torch_rows(options, device):
    import torch
    import torch.nn.functional as F

    t, h, i, v = options.tokens, options.hidden, options.intermediate, options.vocab
    bf16 = torch.bfloat16
    torch.manual_seed(1)

    def draw(*shape, dtype=bf16, grad=False):
        return torch.randn(*shape, device=device, dtype=torch.float32).to(dtype).requires_grad_(grad)

    cold = torch.empty(0 if device == "cpu" else 120 << 20, device=device, dtype=torch.uint8)

    def norm(x, w):
        return F.rms_norm(x, (h,), w, 1e-5)

    def add_norm(x, y, w):
        s = x + y
        return s, norm(s, w)

    def swiglu(g, u):
        return F.silu(g) * u

    def swiglu_grad(g, u, d):
        sig = torch.sigmoid(g)
        return d * u * sig * (1 + g * (1 - sig)), d * g * sig

    def cross(x, labels):
        loss = F.cross_entropy(x.float(), labels, reduction="sum")
        return loss, torch.autograd.grad(loss, x)[0]

    def adam(p, m, q, g, w, scale, step):
        g = g * scale
        m.lerp_(g, 0.1)
        q.mul_(0.95).addcmul_(g, g, value=0.05)
        p.mul_(1 - 3e-5)
        p.sub_(3e-4 * (m / 0.1) / ((q / 0.05).sqrt() + 1e-8))
        w.copy_(p)

    x, y, d, w = draw(t, h), draw(t, h), draw(t, h), draw(h, dtype=torch.float32)
    xg, wg = draw(t, h, grad=True), draw(h, dtype=bf16, grad=True)
    gate, up, dgu = draw(t, i), draw(t, i), draw(t, i)
    logits = draw(t, v, grad=True)
    labels = torch.randint(0, v, (t,), device=device)
    size = (h, v)
    master, first, second, grad = (draw(*size, dtype=torch.float32).abs() for _ in range(4))
    weight, scale = draw(*size), torch.ones((), device=device)
    rows = {
        "rms_norm": (norm, (x, w.to(bf16))),
        "add + rms_norm": (add_norm, (x, y, w.to(bf16))),
        "silu(gate) * up": (swiglu, (gate, up)),
        "gradient of silu(gate) * up": (swiglu_grad, (gate, up, dgu)),
        "cross-entropy and its gradient": (cross, (logits, labels)),
        "AdamW with masters": (adam, (master, first, second, grad, weight, scale, 1)),
    }

    def median(once):
        for _ in range(3):
            once()
        if device == "cpu":
            return 0.0
        times = []
        for _ in range(REPEATS):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            cold.zero_()
            begin.record()
            once()
            end.record()
            end.synchronize()
            times.append(begin.elapsed_time(end) * 1e3)
        return statistics.median(times)

    eager, compiled = {}, {}
    for name, (function, arguments) in rows.items():
        eager[name] = median(lambda: function(*arguments))
        if device == "cpu":
            continue
        fast = torch.compile(function)
        compiled[name] = median(lambda: fast(*arguments))
    # Subtracts the forward: autograd has no backward without it. Graphs hide the launches.
    name = "gradient of add + rms_norm"
    for function, out in ((add_norm, eager), (torch.compile(add_norm) if device != "cpu" else None, compiled)):
        if function is None:
            continue
        s, n = function(xg, y, wg)
        out[name] = median(lambda: torch.autograd.grad([s, n], [xg, wg], [d, d], retain_graph=True))
    # Is what users of PyTorch call: the fused optimizer, then the copy to bf16.
    p = torch.nn.Parameter(draw(*size, dtype=torch.float32))
    p.grad = draw(*size, dtype=torch.float32)
    optimizer = torch.optim.AdamW([p], lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)

    def step():
        p.grad.mul_(scale)
        optimizer.step()
        with torch.no_grad():
            weight.copy_(p)

    eager["AdamW with masters"] = median(step)
    label = f"PyTorch {torch.__version__}"
    return {f"{label} eager": eager, f"{label} compiled": compiled}


def jax_rows(options, device):
    import jax
    import jax.numpy as jnp

    t, h, i, v = options.tokens, options.hidden, options.intermediate, options.vocab
    keys = iter(jax.random.split(jax.random.PRNGKey(1), 400))

    def draw(*shape, dtype=jnp.bfloat16):
        return jax.random.normal(next(keys), shape, jnp.float32).astype(dtype)

    def norm(x, w):
        f = x.astype(jnp.float32)
        return (f * jax.lax.rsqrt(jnp.mean(f * f, -1, keepdims=True) + 1e-5)).astype(x.dtype) * w

    def add_norm(x, y, w):
        s = x + y
        return s, norm(s, w)

    def add_norm_grad(x, y, w, d, e):
        return jax.vjp(lambda x, w: add_norm(x, y, w), x, w)[1]((d, e))

    def swiglu(g, u):
        return jax.nn.silu(g) * u

    def swiglu_grad(g, u, d):
        return jax.vjp(swiglu, g, u)[1](d)

    def cross(x, labels):
        def loss(x):
            f = x.astype(jnp.float32)
            return jnp.sum(jax.nn.logsumexp(f, -1) - jnp.take_along_axis(f, labels[:, None], 1)[:, 0])
        return jax.value_and_grad(loss)(x)

    def adam(p, m, q, g, w, scale):
        g = g * scale
        m = 0.9 * m + 0.1 * g
        q = 0.95 * q + 0.05 * g * g
        p = p * (1 - 3e-5) - 3e-4 * (m / 0.1) / (jnp.sqrt(q / 0.05) + 1e-8)
        return p, m, q, p.astype(jnp.bfloat16)

    labels = jax.random.randint(next(keys), (t,), 0, v)
    size = (h, v)
    rows = {
        "rms_norm": (norm, lambda: (draw(t, h), draw(h))),
        "add + rms_norm": (add_norm, lambda: (draw(t, h), draw(t, h), draw(h))),
        "silu(gate) * up": (swiglu, lambda: (draw(t, i), draw(t, i))),
        "gradient of silu(gate) * up": (swiglu_grad, lambda: (draw(t, i), draw(t, i), draw(t, i))),
        "gradient of add + rms_norm": (add_norm_grad, lambda: (draw(t, h), draw(t, h), draw(h),
                                                                draw(t, h), draw(t, h))),
        "cross-entropy and its gradient": (cross, lambda: (draw(t, v), labels)),
        "AdamW with masters": (adam, lambda: tuple(abs(draw(*size, dtype=jnp.float32)) for _ in range(4))
                               + (draw(*size), jnp.float32(1))),
    }
    times = {}
    for name, (function, arguments) in rows.items():
        donated = (0, 1, 2, 4) if function is adam else ()
        fast = jax.jit(function, donate_argnums=donated)
        sets = [arguments() for _ in range(2 if function is adam else 6)]
        if function is adam:
            def step(k):
                a = sets[k]
                p, m, q, w = fast(*a)
                sets[k] = (p, m, q, a[3], w, a[5])
                return p
        else:
            def step(k):
                return fast(*sets[k])
        for k in range(len(sets)):
            jax.block_until_ready(step(k))
        best = []
        # Queues several, since JAX has no events; other arguments each time keep the cache cold.
        for _ in range(3):
            begin = time.perf_counter()
            last = [step(k % len(sets)) for k in range(REPEATS)]
            jax.block_until_ready(last[-len(sets):])
            best.append((time.perf_counter() - begin) / REPEATS * 1e6)
            del last
        times[name] = statistics.median(best)
        del sets
    return {f"JAX {jax.__version__} jit": times}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program")
    parser.add_argument("--check", default="build/bin/llmc-gpu-check")
    parser.add_argument("--json")
    parser.add_argument("--tokens", type=int, default=4096)
    parser.add_argument("--hidden", type=int, default=2048)
    parser.add_argument("--intermediate", type=int, default=8192)
    parser.add_argument("--vocab", type=int, default=32000)
    parser.add_argument("--cpu", action="store_true")
    options = parser.parse_args()
    columns = {}
    if options.program:
        ours = measure_ours(options)
        if ours is None:
            return 77
        columns["llmc"] = ours
    for peer in (torch_rows, jax_rows):
        try:
            columns.update(peer(options, "cpu" if options.cpu else "cuda"))
        except ImportError as why:
            print(f"{peer.__name__}: {why}", flush=True)
    print(f"{'us':34}" + "".join(f"{name:>26}" for name in columns))
    for row in OURS:
        print(f"{row:34}" + "".join(f"{times[row]:26.1f}" if row in times else f"{'':26}"
                                    for times in columns.values()))
    if options.json:
        with open(options.json, "w") as f:
            json.dump({"sizes": {k: getattr(options, k) for k in ("tokens", "hidden", "intermediate", "vocab")},
                       "microseconds": columns}, f, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
