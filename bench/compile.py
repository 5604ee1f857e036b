"""How long llmc compiles large models, and how long their programs take to start.

    python3 bench/compile.py [BIN_DIR ...] [--rounds 3]

Each case is compiled by each build in turn; prints the median of seconds and the largest memory of the process, for
several builds the ratio to the first. The last case starts a small program whose step has 32,000 rows, beside 32.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LLAMA = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 32000, "max_position_embeddings": 4096,
         "rms_norm_eps": 1e-05, "hidden_act": "silu", "tie_word_embeddings": False}
MODELS = {
    "7B": dict(hidden_size=4096, intermediate_size=11008, num_hidden_layers=32, num_attention_heads=32, num_key_value_heads=32),
    "70B": dict(hidden_size=8192, intermediate_size=28672, num_hidden_layers=80, num_attention_heads=64, num_key_value_heads=8),
    "405B": dict(hidden_size=16384, intermediate_size=53248, num_hidden_layers=126, num_attention_heads=128, num_key_value_heads=8,
                 vocab_size=128256),
}
CASES = [("7B", "8x4x8", 32), ("7B", "8x16x8", 1024), ("7B", "8x16x8", 32000), ("70B", "8x16x8", 1024), ("405B", "8x16x8", 1024),
         ("405B", "8x16x8", 1024, "--virtual-stages", "2"), ("405B", "8x16x8", 1024, "--schedule", "zero-bubble")]


def timed(command):
    """Seconds, and MB of the largest memory, of a command that succeeds."""
    begin = time.perf_counter()
    process = subprocess.Popen([str(word) for word in command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    problem = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"{' '.join(map(str, command))}: {problem}")
    return time.perf_counter() - begin, usage.ru_maxrss / 1024


def show(title, results):
    """One line: the median of each build, and its ratio to the first."""
    first = None
    for build, rounds in results.items():
        seconds, memory = (statistics.median(column) for column in zip(*rounds))
        first = first or seconds
        ratio = f"  x {seconds / first:.2f}" if len(results) > 1 else ""
        print(f"{title:36} {seconds:7.2f} s {memory:7.0f} MB{ratio}  {build if len(results) > 1 else ''}".rstrip(), flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("builds", nargs="*", default=[os.path.join(ROOT, "build", "bin")])
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="llmc-compile-") as folder:
        out = os.path.join(folder, "out")
        for model, mesh, rows, *flags in CASES:
            config = os.path.join(folder, model + ".json")
            with open(config, "w") as f:
                json.dump({**LLAMA, **MODELS[model]}, f)
            results = {build: [] for build in arguments.builds}
            for _ in range(arguments.rounds):
                for build in arguments.builds:
                    results[build].append(timed([os.path.join(build, "llmc"), "compile", config, "-o", out, "--mesh", mesh,
                                                 "--global-batch", rows, "-q", *flags]))
            show(" ".join([f"compile {model} on {mesh}, {rows} rows", *flags]), results)
        small = os.path.join(ROOT, "test", "data", "gpt2")
        for rows in (32, 32000):
            results = {build: [] for build in arguments.builds}
            for build in arguments.builds:
                timed([os.path.join(build, "llmc"), "compile", os.path.join(small, "config.json"), "-o", out, "--seq", 1,
                       "--global-batch", rows, "-q"])
                for _ in range(arguments.rounds):
                    results[build].append(timed([out, "--data", os.path.join(small, "text.bin"), "--steps", 0, "-q"]))
            show(f"start of a program of {rows} rows", results)


if __name__ == "__main__":
    main()
