"""How fast a program reads its weights, by how they are stored, beside numpy that widens the same bytes to float32.

    python3 bench/reading.py [--rows 65536] [--rounds 3]

The weights of a one-layer Llama of width 2,048 whose table and head have that many rows: F32, BF16, F8_E4M3 with scales of
blocks of 128 x 128. One thread; the files are in the page cache. Prints elements a second, and numpy's.
"""
import argparse
import json
import os
import re
import statistics
import struct
import subprocess
import sys
import tempfile
import time

import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LLMC = os.path.join(ROOT, "build", "bin", "llmc")
WIDTH = 2048
CONFIG = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "max_position_embeddings": 16, "rms_norm_eps": 1e-5,
          "hidden_act": "silu", "tie_word_embeddings": False, "hidden_size": WIDTH, "intermediate_size": 2 * WIDTH,
          "num_hidden_layers": 1, "num_attention_heads": 16, "num_key_value_heads": 16}
BYTES = {"F32": 4, "BF16": 2, "F8_E4M3": 1}


def shapes(rows):
    layer = "model.layers.0."
    yield "model.embed_tokens.weight", (rows, WIDTH)
    yield "lm_head.weight", (rows, WIDTH)
    for name in "qkvo":
        yield layer + f"self_attn.{name}_proj.weight", (WIDTH, WIDTH)
    for name in ("gate", "up"):
        yield layer + f"mlp.{name}_proj.weight", (2 * WIDTH, WIDTH)
    yield layer + "mlp.down_proj.weight", (WIDTH, 2 * WIDTH)
    for name in ("model.norm", layer + "input_layernorm", layer + "post_attention_layernorm"):
        yield name + ".weight", (WIDTH,)


def write(path, rows, dtype):
    """Bytes that are small numbers in every one of the types; norms are F32, as in such checkpoints."""
    header, parts, at, elements = {}, [], 0, 0

    def add(name, kind, shape, data):
        nonlocal at
        header[name] = {"dtype": kind, "shape": list(shape), "data_offsets": [at, at + data.nbytes]}
        parts.append(data)
        at += data.nbytes

    for name, shape in shapes(rows):
        kind = "F32" if len(shape) == 1 else dtype
        size = int(np.prod(shape))
        elements += size
        data = np.full(size * BYTES[kind], 0x3C, np.uint8)
        add(name, kind, shape, data)
        if kind == "F8_E4M3":
            add(name + "_scale_inv", "F32", [-(-s // 128) for s in shape], np.ones([-(-s // 128) for s in shape], np.float32))
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for part in parts:
            f.write(part.tobytes())
    return elements


def run(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}: {done.stderr}")
    return done.stdout


def widened(path, dtype):
    """Seconds in which numpy makes float32 of the file's bytes."""
    begin = time.perf_counter()
    data = np.fromfile(path, {4: np.uint32, 2: np.uint16, 1: np.uint8}[BYTES[dtype]])
    if dtype == "BF16":
        data = data.astype(np.uint32) << 16
    elif dtype == "F8_E4M3":
        data = np.arange(256, dtype=np.float32)[data]
    data.view(np.float32)[::4096].sum()
    return time.perf_counter() - begin


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=65536)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="llmc-reading-") as folder:
        config, program = os.path.join(folder, "config.json"), os.path.join(folder, "program")
        with open(config, "w") as f:
            json.dump({**CONFIG, "vocab_size": arguments.rows}, f)
        run(LLMC, "compile", config, "-o", program, "--infer", "--dim", "batch=1,sequence=16", "--weights", "random", "-q")
        file = os.path.join(folder, "weights.safetensors")
        for dtype in BYTES:
            elements = write(file, arguments.rows, dtype)
            ids = os.path.join(folder, "ids.npy")
            np.save(ids, np.ones((1, 16), np.int64))
            ours, peer = [], []
            for _ in range(arguments.rounds + 1):
                said = run(program, "--input", "input_ids=" + ids, "--output", os.path.join(folder, "out"), "--weights", file,
                           "--workers", 1, "--threads", 1, "-v")
                ours.append(float(re.search(r"filling weights\s+([0-9.]+) s", said)[1]))
                peer.append(widened(file, dtype))
            a, b = (elements / statistics.median(x[1:]) / 1e9 for x in (ours, peer))
            print(f"{dtype:8} {a:5.2f}e9 elements/s, numpy {b:5.2f}e9: x {a / b:.2f}", flush=True)


main()
