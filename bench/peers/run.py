#!/usr/bin/env python3
"""Our programs beside PyTorch, JAX, ONNX Runtime and IREE, in turn, on the same work.

run.py [--works gpt2-small,...] [--modes train,infer,ranks] [--iterations 5] [--json F]
Needs build/peers (made on the first call by pip: torch, jax, onnxruntime, IREE) and build/bin/llmc.
Prints medians, GFLOP/s, peak memory and the ratio of the fastest peer's time to ours.
"""
import argparse
import json
import os
import pathlib
import re
import statistics
import struct
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE))
from shapes import WORKS  # noqa: E402

REQUIREMENTS = ["torch", "numpy", "jax", "onnx", "onnxscript", "onnxruntime", "iree-base-compiler[onnx]",
                "iree-base-runtime"]
PEERS = {
    "train": [("PyTorch eager", "with_torch.py", "train eager"), ("PyTorch compiled", "with_torch.py", "train compiled"),
              ("JAX", "with_jax.py", "train 1")],
    "infer": [("ONNX Runtime", "with_onnx.py", "infer onnxruntime"), ("PyTorch eager", "with_torch.py", "infer eager"),
              ("PyTorch compiled", "with_torch.py", "infer compiled"), ("JAX", "with_jax.py", "infer 1"),
              ("IREE", "with_onnx.py", "infer iree")],
    "ranks": [("JAX, 4 devices", "with_jax.py", "train 4")],
}


def peers_python():
    """The interpreter that has the peers."""
    given = os.environ.get("LLMC_PEERS_PYTHON")
    if given:
        return given
    folder = ROOT / "build" / "peers"
    stamp = folder / "requirements"
    if not stamp.exists() or stamp.read_text() != "\n".join(REQUIREMENTS):
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run([folder / "bin" / "pip", "install", "-q", *REQUIREMENTS], check=True)
        stamp.write_text("\n".join(REQUIREMENTS))
    return str(folder / "bin" / "python")


def run_peer(python, script, arguments, work, iterations):
    command = [python, str(HERE / script), work.name, *arguments.split(), str(iterations)]
    done = subprocess.run(command, cwd=HERE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        return {"error": (done.stderr.strip().splitlines() or ["failed"])[-1][:200]}
    return json.loads(done.stdout.strip().splitlines()[-1])


class Ours:
    """Compiles once a mode; runs as users do."""

    def __init__(self, work, mode, folder, binaries=ROOT / "build" / "bin", flags=(), dp=1, tp=1, pp=1, micro=None):
        self.work, self.mode, self.folder = work, mode, pathlib.Path(folder)
        self.out = self.folder / "out"
        config = self.folder / "config.json"
        config.write_text(json.dumps(work.config()))
        llmc = pathlib.Path(binaries).resolve() / "llmc"
        if mode == "infer":
            choices = ["--infer", "--mesh", "1", "--dim", f"batch={work.rows}", "--dim", f"sequence={work.tokens}"]
        else:
            dp, tp = (2, 2) if mode == "ranks" else (dp, tp)
            choices = ["--train", "--mesh", f"{dp}x{pp}x{tp}", "--seq", str(work.tokens), "--micro-batch",
                       str(micro or work.rows // dp), "--global-batch", str(work.rows)]
        if "--precision" not in flags:
            flags = ("--precision", "fp32", *flags)
        subprocess.run([llmc, "compile", config, "-o", self.out, *choices, *flags], check=True, stdout=subprocess.DEVNULL)

    def run(self, iterations, warm=2):
        work = self.work
        if self.mode == "infer":
            command = [self.out, "--input", f"input_ids={self.ids()}", "--output", self.folder / "results",
                       "--repeat", str(iterations + warm), "--weights", "random"]
        else:
            tokens = self.folder / "tokens.bin"
            count = work.rows * (iterations + warm) * work.tokens + 1
            kind = "H" if work.words <= 65536 else "I"
            tokens.write_bytes(b"".join(struct.pack("<" + kind, i * 7919 % work.words) for i in range(count)))
            command = [self.out, "--data", tokens, "--steps", str(iterations + warm), "--metrics", self.folder / "metrics"]
            (self.folder / "metrics").unlink(missing_ok=True)
        done = subprocess.run(["/usr/bin/time", "-f", "peak %M", *map(str, command)], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True)
        if done.returncode != 0:
            return {"error": (done.stderr.strip().splitlines() or ["failed"])[-1][:200]}
        memory = int(re.search(r"peak (\d+)", done.stderr)[1]) * 1024
        if self.mode == "infer":
            times = [float(re.search(r"latency +median ([0-9.]+) ms", done.stdout)[1]) / 1e3]
        else:
            times = [json.loads(line)["step_time_s"] for line in open(self.folder / "metrics")][warm:]
        return {"times": times, "memory": memory}

    def median(self, iterations, warm):
        """Runs; returns the median of its seconds and its memory. A run that fails ends the benchmark."""
        result = self.run(iterations, warm)
        if "error" in result:
            raise SystemExit(f"{self.mode} {self.work.name}, {self.out}: {result['error']}")
        return statistics.median(result["times"]), result["memory"]

    def ids(self):
        path = self.folder / "ids.npy"
        work = self.work
        header = f"{{'descr': '<i8', 'fortran_order': False, 'shape': ({work.rows}, {work.tokens}), }}"
        header += " " * (63 - (10 + len(header)) % 64) + "\n"
        body = b"".join(struct.pack("<q", i * 7919 % work.words) for i in range(work.rows * work.tokens))
        path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + body)
        return path


def in_turn(sides, rounds):
    """Runs three steps of each side in every round, after two that are not counted; who goes first turns. `sides` are pairs
    of a name and an Ours. Returns, by name, the seconds of a step in every round and the largest memory."""
    results = {name: {"times": [], "memory": 0} for name, _ in sides}
    for at in range(rounds):
        for name, ours in sides[at % len(sides):] + sides[:at % len(sides)]:
            seconds, memory = ours.median(iterations=3, warm=2)
            results[name]["times"].append(seconds)
            results[name]["memory"] = max(results[name]["memory"], memory)
    return results


def measure(work, mode, python, iterations):
    rows = []
    with tempfile.TemporaryDirectory(prefix="llmc-bench-") as folder:
        ours = Ours(work, mode, folder)
        rows.append(("llmc", ours.run(iterations)))
        for name, script, arguments in PEERS[mode]:
            rows.append((name, run_peer(python, script, arguments, work, iterations)))
        rows.append(("llmc again", ours.run(iterations)))
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--works", default=",".join(WORKS))
    parser.add_argument("--modes", default="train,infer,ranks")
    parser.add_argument("--iterations", type=int, default=5)
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    python = peers_python()
    report = []
    for mode in arguments.modes.split(","):
        for name in arguments.works.split(","):
            work = WORKS[name]
            rows = measure(work, mode, python, arguments.iterations)
            flops = work.flops(mode != "infer")
            print(f"{mode} {name}: {flops / 1e9:.1f} GFLOP", flush=True)
            best = {True: float("inf"), False: float("inf")}
            for who, result in rows:
                if "error" in result:
                    print(f"  {who:18} failed: {result['error']}")
                    continue
                median = statistics.median(result["times"])
                mine = who.startswith("llmc")
                best[mine] = min(best[mine], median)
                print(f"  {who:18} {median * 1e3:9.1f} ms {flops / median / 1e9:7.1f} GFLOP/s "
                      f"{result['memory'] / 2**20:8.0f} MiB")
            ratio = best[False] / best[True]
            print(f"  fastest peer / llmc = {ratio:.2f}", flush=True)
            report.append({"mode": mode, "work": name, "flops": flops, "ratio": ratio,
                           "results": dict(rows)})
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
