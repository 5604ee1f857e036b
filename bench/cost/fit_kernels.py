#!/usr/bin/env python3
"""Fits closed forms of kernel and collective times to measured ones, for one GPU after another.

    /usr/bin/python3 bench/cost/fit_kernels.py --calibration DIR [--json F]

DIR holds gemm.csv, attention.csv, nccl.csv and moe.csv. Prints one JSON object, {gpu: {product, product_fp8, attention,
collectives, grouped}}: the constants of every form, in seconds, bytes and elements, and an "error" object beside them
(median and mean of |predicted / measured - 1|, median of log(predicted / measured) as bias). Every form is a function
below; its docstring is the formula. numpy is all it needs.
"""
import argparse
import csv
import json
import pathlib

import numpy as np

# Dense bf16 FLOP/s, HBM bytes/s, multiprocessors, NVLink bytes/s in one direction: data sheets, which the constants scale.
GPUS = {"a100": (312e12, 2.04e12, 108, 300e9), "h100": (989e12, 3.35e12, 132, 450e9),
        "h200": (989e12, 4.8e12, 132, 450e9), "b200": (2250e12, 8.0e12, 148, 900e9)}
TILES = [(256, 128), (128, 256), (128, 128), (128, 64), (64, 128), (64, 64), (256, 64)]
SPLITS = [1, 2, 4, 8]


def table(path, texts):
    """Reads a CSV file as arrays: strings for the columns in texts, floats for the others, time_us as seconds in time."""
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file))
    columns = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    columns = {name: values if name in texts else values.astype(float) for name, values in columns.items()}
    columns["time"] = columns.pop("time_us") * 1e-6
    return columns


def select(columns, mask):
    return {name: values[mask] for name, values in columns.items()}


def errors(predicted, measured, subsets):
    """Summarises the relative errors over every subset (a name and a mask)."""
    error = np.abs(predicted / measured - 1)
    bias = np.log(predicted / measured)
    return {name: {"rows": int(mask.sum()), "median": round(float(np.median(error[mask])), 4),
                   "mean": round(float(error[mask].mean()), 4), "bias": round(float(np.median(bias[mask])), 4)}
            for name, mask in subsets.items() if mask.any()}


def minimise(loss, start, step=0.3, evaluations=600):
    """Runs Nelder and Mead's simplex: the losses have kinks (max, ceil), on which derivatives mislead."""
    size = len(start)
    points = np.vstack([start] + [start + step * np.eye(size)[i] for i in range(size)])
    values = np.array([loss(point) for point in points])
    used = size + 1
    while used < evaluations and np.ptp(values) > 1e-7:
        order = np.argsort(values)
        points, values = points[order], values[order]
        centre = points[:-1].mean(axis=0)
        tried = centre + (centre - points[-1])
        value = loss(tried)
        used += 1
        if value < values[0]:
            further = centre + 2 * (centre - points[-1])
            value_further = loss(further)
            used += 1
            if value_further < value:
                tried, value = further, value_further
        elif value >= values[-2]:
            if value < values[-1]:
                points[-1], values[-1] = tried, value
            tried = centre + 0.5 * (points[-1] - centre)
            value = loss(tried)
            used += 1
            if value >= values[-1]:
                points[1:] = points[0] + 0.5 * (points[1:] - points[0])
                values[1:] = [loss(point) for point in points[1:]]
                used += size
                continue
        points[-1], values[-1] = tried, value
    return points[values.argmin()]


def fit(form, start, measured, weights=None, rounds=3, evaluations=600):
    """Fits the constants of form (all above zero, so their logarithms are free) to the logarithms of the times.

    Takes |log error|, rounded off below 3 %, instead of squares: the rows hold spikes of up to 4x, which a median ignores.
    """
    names = list(start)
    target = np.log(measured)
    weights = np.ones(len(measured)) if weights is None else weights

    def loss(point):
        if np.abs(point).max() > 40:
            return 1e9
        residual = np.log(form(dict(zip(names, np.exp(point))))) - target
        return float((weights * np.sqrt(residual ** 2 + 0.03 ** 2)).sum() / weights.sum())

    point = np.log(np.array([start[name] for name in names]))
    for turn in range(rounds):
        # Starts again from a fresh simplex, because a simplex that has collapsed against a kink stops early.
        point = minimise(loss, point, 0.4 / (turn + 1), evaluations)
    return {name: float(value) for name, value in zip(names, np.exp(point))}


# ------------------------------------------------------------------------------------------------------------ products


# Sets how sharply the larger of compute, traffic and latency hides the others; 2 to 4 were tried, on every GPU.
SHARPNESS = 2.5
# Takes the tile of the wave factor: the largest one that the libraries prefer for large shapes.
TILE = (128, 256)


def smooth(gpu, c, m, n, k, width=2, speed=1, groups=1.0):
    """t0 + (w^p + b^p + l^p)^(1/p) + qx 3 m k / bw, p = SHARPNESS, for groups products in one launch, where

    w = groups 2 m n k / (speed peak e) (1 + k0 / k) (1 + q (waves - 1)),
    waves = ceil(f) SMs 128 256 / (groups m n) where f > 1, else 1, f = groups ceil(m/128) ceil(n/256) / SMs,
    b = groups (width (m k + n k) + 2 m n) / (bw eb), l = tau min(k, kmax).
    l is the walk along k of one tile, which a library cuts at about kmax when tiles are too few to fill the GPU.
    """
    peak, bandwidth, sms, _ = GPUS[gpu]
    fill = groups * np.ceil(m / TILE[0]) * np.ceil(n / TILE[1]) / sms
    waves = np.where(fill > 1, np.ceil(fill) * sms * TILE[0] * TILE[1] / (groups * m * n), 1.0)
    work = groups * 2 * m * n * k / (peak * speed * c["e"]) * (1 + c["k0"] / k) * (1 + min(c["q"], 1.0) * (waves - 1))
    moved = groups * (width * (m * k + n * k) + 2 * m * n) / (bandwidth * c["eb"])
    walk = c["tau"] * np.minimum(k, c["kmax"])
    hidden = (work ** SHARPNESS + moved ** SHARPNESS + walk ** SHARPNESS) ** (1 / SHARPNESS)
    return c["t0"] + hidden + c.get("qx", 0.0) * 3 * m * k / bandwidth


class Tiles:
    """The tile form: what does not depend on its constants is computed once for a set of shapes."""

    def __init__(self, gpu, m, n, k):
        self.peak, bandwidth, self.sms, _ = GPUS[gpu]
        self.k, self.moved = k, 2 * (m * k + n * k + m * n) / bandwidth
        self.waves = [[np.ceil(m / tm) * np.ceil(n / tn) * split / self.sms for split in SPLITS] for tm, tn in TILES]
        self.full = [[np.ceil(w) for w in row] for row in self.waves]
        self.least = [[np.maximum(1.0, w) for w in row] for row in self.waves]

    def __call__(self, c):
        """t0 + max(best, bytes / (bw eb)), bytes = 2 (m k + n k + m n), where best is the minimum over tiles and splits of

        waves 2 tm tn (k / split + k0) SMs / (peak e) (1 + c (1/tm + 1/tn)),
        waves = q ceil(w) + (1 - q) max(1, w), w = ceil(m/tm) ceil(n/tn) split / SMs.
        """
        q = min(c["q"], 1.0)
        best = np.inf
        for i, (tm, tn) in enumerate(TILES):
            cost = 2 * tm * tn * self.sms / (self.peak * c["e"]) * (1 + c["c"] * (1 / tm + 1 / tn))
            for j, split in enumerate(SPLITS):
                waves = q * self.full[i][j] + (1 - q) * self.least[i][j]
                best = np.minimum(best, waves * (self.k / split + c["k0"]) * cost)
        return c["t0"] + np.maximum(best, self.moved / c["eb"])


def shapes(rows):
    """Weights shapes below 256 rows by a quarter: serving runs them, a training step hardly does."""
    m, n, k = rows["m"], rows["n"], rows["k"]
    subsets = {"all": m > 0, "m>=256": m >= 256, "large": (m >= 1024) & (n >= 1024) & (k >= 1024)}
    return m, n, k, np.where(m >= 256, 1.0, 0.25), subsets


def fit_product(gpu, rows):
    m, n, k, weights, subsets = shapes(rows)
    start = {"t0": 3e-6, "e": 0.8, "k0": 100.0, "eb": 0.8, "tau": 1.4e-9, "kmax": 3000.0, "q": 0.1}
    constants = fit(lambda c: smooth(gpu, c, m, n, k), start, rows["time"], weights, rounds=4)
    if constants["q"] < 0.01:
        constants["q"] = 0.0
    found = dict(constants, error=errors(smooth(gpu, constants, m, n, k), rows["time"], subsets))
    form = Tiles(gpu, m, n, k)
    start = {"t0": 3e-6, "e": 0.8, "k0": 100.0, "c": 10.0, "eb": 0.75, "q": 0.3}
    tile = fit(form, start, rows["time"], weights, rounds=3, evaluations=250)
    found["tile"] = dict(tile, error=errors(form(tile), rows["time"], subsets))
    return found


def fit_product_fp8(gpu, rows):
    """Fits the product at twice the peak with a pass that quantises x in it: drop qx, and t0, where x comes quantised."""
    m, n, k, weights, subsets = shapes(rows)
    start = {"t0": 1e-5, "e": 0.7, "k0": 200.0, "eb": 0.8, "tau": 5e-10, "kmax": 6000.0, "q": 0.1, "qx": 3.0}
    constants = fit(lambda c: smooth(gpu, c, m, n, k, 1, 2), start, rows["time"], weights, rounds=4, evaluations=900)
    if constants["q"] < 0.01:
        constants["q"] = 0.0
    return dict(constants, error=errors(smooth(gpu, constants, m, n, k, 1, 2), rows["time"], subsets))


# ----------------------------------------------------------------------------------------------------------- attention


def attention(gpu, c, batch, q_heads, kv_heads, seq, head_dim):
    """t0 + sqrt(w^2 + (tau seq head_dim / 128)^2) + c bytes / bw, w = flops / (peak e) (1 + s0 / seq), e and s0 by head_dim,

    flops = 4 batch q_heads head_dim seq (seq + 1) / 2, bytes = 4 batch seq head_dim (q_heads + kv_heads) of q, k, v and the
    output. The square root joins to the work the walk of one block of queries along all keys, when blocks are few.
    """
    peak, bandwidth = GPUS[gpu][:2]
    efficiency, ramp = np.empty_like(seq), np.empty_like(seq)
    for dim in np.unique(head_dim):
        efficiency[head_dim == dim], ramp[head_dim == dim] = c[f"e{dim:.0f}"], c[f"s0_{dim:.0f}"]
    work = 2 * batch * q_heads * head_dim * seq * (seq + 1) / (peak * efficiency) * (1 + ramp / seq)
    moved = 4 * batch * seq * head_dim * (q_heads + kv_heads) / bandwidth
    return c["t0"] + np.hypot(work, c["tau"] * seq * head_dim / 128) + c["c"] * moved


def fit_attention(gpu, rows):
    arguments = [rows[name] for name in ("batch", "q_heads", "kv_heads", "seq_tokens", "head_dim")]
    batch, heads, _, seq, head_dim = arguments
    dims = [f"{dim:.0f}" for dim in np.unique(head_dim)]
    start = {"t0": 1e-5, "tau": 1e-8, "c": 1.0, **{"e" + dim: 0.5 for dim in dims}, **{"s0_" + dim: 300.0 for dim in dims}}
    constants = fit(lambda c: attention(gpu, c, *arguments), start, rows["time"], rounds=5, evaluations=1200)
    large = (seq >= 2048) & (batch * heads >= 32)
    subsets = {"all": seq > 0, "large": large}
    for dim in dims:
        subsets["head_dim " + dim] = head_dim == float(dim)
        subsets["large, head_dim " + dim] = large & (head_dim == float(dim))
    return dict(constants, error=errors(attention(gpu, constants, *arguments), rows["time"], subsets))


# --------------------------------------------------------------------------------------------------------- collectives


def collective(gpu, c, op, ranks, size, switch):
    """a0 + a1 R + (wire + s0 (1 - exp(-S / s1))) / (link e (R/8)^q), wire = (R-1)/R S, twice that for all_reduce.

    Where the switch reduces: sv, rv and ev stand for s0, s1 and e (R/8)^q.
    """
    link = GPUS[gpu][3]
    rate = c["e"] * (ranks / 8) ** c["q"]
    ramp, scale = c["s0"], c["s1"]
    if switch.any():
        rate, ramp, scale = (np.where(switch, c[one], other) for one, other in (("ev", rate), ("sv", ramp), ("rv", scale)))
    wire = size * (ranks - 1) / ranks * (2 if op == "all_reduce" else 1)
    return c["a0"] + c["a1"] * ranks + (wire + ramp * (1 - np.exp(-size / scale))) / (link * rate)


def fit_collective(gpu, op, rows):
    ranks, size, time = rows["ranks"], rows["message_bytes"], rows["time"].copy()
    # Takes in-switch reduction for what 8 ranks run in fp16; int8 cannot use it, and fewer ranks show the ring.
    switch = (op == "all_reduce") & (gpu != "a100") & (ranks == 8) & (rows["dtype"] == "fp16")
    if op == "all_to_all":
        # Takes the minimum over the data types below 256 KiB, where single rows are up to 2.5 times too slow.
        for i in np.flatnonzero(size <= 2 ** 18):
            time[i] = rows["time"][(ranks == ranks[i]) & (size == size[i])].min()
    start = {"a0": 4e-6, "a1": 1e-6, "s0": 4e6, "s1": 4e6, "e": 0.75, "q": 0.15}
    if switch.any():
        start.update(ev=1.0, sv=2e7, rv=8e6)
    # Counts small messages for less: a training step sends few of them, and protocol switches scatter them.
    weights = np.where(size >= 2 ** 20, 1.0, 0.3)
    constants = fit(lambda c: collective(gpu, c, op, ranks, size, switch), start, time, weights, rounds=5, evaluations=900)
    subsets = {"all": size > 0, "from 1 MiB": size >= 2 ** 20, "from 16 MiB": size >= 2 ** 24}
    if switch.any():
        subsets.update({"in switch": switch, "in switch, from 16 MiB": switch & (size >= 2 ** 24)})
    return dict(constants, error=errors(collective(gpu, constants, op, ranks, size, switch), time, subsets))


# ------------------------------------------------------------------------------------------------------------- grouped


def grouped(gpu, constants, rows):
    """Divides measured times of experts by the product form: two launches (gate with up, down) of one product per expert.

    Reports the median ratio by rows per expert: with the rows as they are, with rows rounded up to tiles of 64, and with
    the passes over memory around the products (permuted x, activation, weighted sum) at the fitted eb.
    """
    plain = (rows["dtype"] == "bf16") & (rows["ep"] == 1)
    names = ("gated", "hidden", "expert_ffn", "experts", "top_k", "tp", "tokens")
    skewed = select(rows, plain & (rows["routing"] != "balanced"))
    other = dict(zip(zip(*(skewed[name] for name in names)), skewed["time"]))
    rows = select(rows, plain & (rows["routing"] == "balanced"))
    keys = zip(*(rows[name] for name in names))
    # Drops rows of more than twice the time of the other routing: these ran a kernel that the tuner chose badly.
    kept = np.array([time <= 2 * other.get(key, np.inf) for key, time in zip(keys, rows["time"])])
    rows = select(rows, kept)
    hidden, ffn, experts, gated = rows["hidden"], rows["expert_ffn"] / rows["tp"], rows["experts"], rows["gated"]
    routed = rows["tokens"] * rows["top_k"]
    each = routed / experts

    def model(m):
        return (smooth(gpu, constants, m, (1 + gated) * ffn, hidden, groups=experts)
                + smooth(gpu, constants, m, hidden, ffn, groups=experts))

    # Counts x read and permuted x written, the activation read and written, the outputs read and their sum written.
    passes = 2 * (rows["tokens"] * hidden * 2 + routed * (2 * hidden + (2 + gated) * ffn)) / (GPUS[gpu][1] * constants["eb"])
    ratios = {"products": rows["time"] / model(each),
              "products, tiles of 64 rows": rows["time"] / model(64 * np.ceil(each / 64)),
              "products and passes": rows["time"] / (model(each) + passes)}
    edges = [0, 16, 64, 256, 1024, 4096, 1e9]
    report = {"dropped": int((~kept).sum())}
    for name, ratio in ratios.items():
        buckets = {}
        for low, high in zip(edges, edges[1:]):
            mask = (each >= low) & (each < high)
            if mask.any():
                lower, middle, upper = (round(float(value), 3) for value in np.percentile(ratio[mask], (25, 50, 75)))
                buckets[f"{low:g} to {high:g}"] = {"rows": int(mask.sum()), "median": middle, "quartiles": [lower, upper]}
        spread = np.abs(ratio / np.median(ratio) - 1)
        report[name] = {"median": round(float(np.median(ratio)), 3), "buckets": buckets,
                        "error": {"median": round(float(np.median(spread)), 4), "mean": round(float(spread.mean()), 4)}}
    return report


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calibration", required=True, type=pathlib.Path, help="folder of the measured rows (CSV)")
    parser.add_argument("--json", type=pathlib.Path, help="file that gets the same JSON object")
    options = parser.parse_args()
    products = table(options.calibration / "gemm.csv", {"gpu", "framework", "dtype"})
    attentions = table(options.calibration / "attention.csv", {"gpu", "dtype"})
    transfers = table(options.calibration / "nccl.csv", {"gpu", "op", "dtype"})
    experts = table(options.calibration / "moe.csv", {"gpu", "dtype", "routing"})
    result = {}
    for gpu in GPUS:
        of = {dtype: select(products, (products["gpu"] == gpu) & (products["dtype"] == dtype)) for dtype in ("bf16", "fp8")}
        found = result[gpu] = {"product": fit_product(gpu, of["bf16"])}
        if len(of["fp8"]["time"]):
            found["product_fp8"] = fit_product_fp8(gpu, of["fp8"])
        plain = (attentions["gpu"] == gpu) & (attentions["dtype"] == "bf16") & (attentions["window_tokens"] == 0)
        found["attention"] = fit_attention(gpu, select(attentions, plain))
        found["collectives"] = {}
        for op in ("all_reduce", "all_gather", "reduce_scatter", "all_to_all"):
            rows = select(transfers, (transfers["gpu"] == gpu) & (transfers["op"] == op))
            found["collectives"][op] = fit_collective(gpu, op, rows)
        if (experts["gpu"] == gpu).any():
            found["grouped"] = grouped(gpu, found["product"], select(experts, experts["gpu"] == gpu))
    text = json.dumps(rounded(result), indent=1)
    print(text)
    if options.json:
        options.json.write_text(text + "\n")


def rounded(value):
    """Rounds constants to five digits, which is more than the rows can tell."""
    if isinstance(value, dict):
        return {key: rounded(inner) for key, inner in value.items()}
    return float(f"{value:.5g}") if isinstance(value, float) else value


if __name__ == "__main__":
    main()
