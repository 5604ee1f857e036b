#!/usr/bin/env python3
"""What llmc plan finds for this machine, beside all meshes measured; and how long searches for thousands of accelerators take.

    search.py [--cluster machine.json] [--models 6] [--seed 1] [--ranks 4] [--large] [--out FILE.json]

Calibrates the machine unless a cluster file is given. Of each drawn model takes the plan that `--mesh auto` finds, and of
every mesh of as many ranks the best plan that is predicted, trains them all for some steps, and prints by how much the
plan that was found is slower than the fastest that was measured. With --large it times searches alone, each in a process
of its own: seconds, plans, memory. Wants quiet cores.
"""
import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "bench", "cost"))
from ourselves import LLMC, config, trained  # noqa: E402


def meshes(ranks):
    sizes = [n for n in range(1, ranks + 1) if ranks % n == 0]
    return [(ranks // (pp * tp), pp, tp) for pp in sizes for tp in sizes if ranks % (pp * tp) == 0]


def predicted(path, cluster, *flags):
    run = subprocess.run([LLMC, "plan", path, "--cluster", cluster, "--json", *map(str, flags)], capture_output=True, text=True)
    return json.loads(run.stdout)["chosen"] if run.returncode == 0 else None


def measured(folder, path, chosen, vocabulary, steps):
    out = os.path.join(folder, "program")
    words = [word for pair in chosen["flags"].items() for word in pair]
    subprocess.run([LLMC, "compile", path, "-o", out, "--weights", "random", "-q", *words], check=True)
    return trained(folder, out, steps, vocabulary)[0]


def small(args):
    rows, draw = [], random.Random(args.seed)
    print(f"{'model':10} {'found':44} {'step s':>9} {'best of all meshes':28} {'step s':>9} {'slower %':>9}")
    while len(rows) < args.models:
        family, model = config(draw)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "config.json")
            with open(path, "w") as file:
                json.dump({"model_type": family} | model, file)
            base = ["--gpus", args.ranks, "--global-batch", 4 * args.ranks]
            found = predicted(path, args.cluster, "--mesh", "auto", *base)
            if not found or not 0.05 < found["step_time_s"] < 3:
                continue
            times = {}
            for dp, pp, tp in meshes(args.ranks):
                own = predicted(path, args.cluster, *base, "--dp", dp, "--pp", pp, "--tp", tp, "--micro-batch", "auto", "--zero", "auto",
                                "--schedule", "auto", "--sequence-parallel", "auto")
                if own:
                    times[f"{dp}x{pp}x{tp}"] = measured(folder, path, own, model["vocab_size"], args.steps)
            ours = measured(folder, path, found, model["vocab_size"], args.steps)
            mesh = found["mesh"]
            name = f"{mesh['dp']}x{mesh['pp']}x{mesh['tp']}"
            best = min(times, key=times.get)
            # The same plan was measured twice where the mesh that was found is the best one.
            least = min(times[best], ours)
            rows.append({"family": family, "model": model, "found": found["flags"], "step_s": ours, "meshes": times,
                         "slower_percent": 100 * (min(ours, times.get(name, ours)) / least - 1)})
            line = " ".join(f"{k} {v}" for k, v in found["flags"].items() if k in ("--mesh", "--micro-batch", "--zero"))
            print(f"{family:10} {line:44} {ours:9.4f} {best:28} {least:9.4f} {rows[-1]['slower_percent']:9.1f}", flush=True)
    slower = [row["slower_percent"] for row in rows]
    print(f"{sum(s <= 5 for s in slower)} of {len(slower)} within 5 % of the best mesh measured; {sum(slower) / len(slower):.1f} % on average, "
          f"{max(slower):.1f} % at most")
    return rows


LARGE = [("Llama 3.1 405B", 16384, 2048, 8192, {}), ("Llama 3.1 405B", 1024, 512, 8192, {}),
         ("the same, 32 layers", 1024, 512, 8192, {"num_hidden_layers": 32}), ("Llama 3.1 70B", 1024, 1024, 8192, None)]


def large(args):
    config_405b = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 16384, "intermediate_size": 53248,
                   "num_hidden_layers": 126, "num_attention_heads": 128, "num_key_value_heads": 8, "vocab_size": 128256,
                   "max_position_embeddings": 131072, "rms_norm_eps": 1e-5, "rope_theta": 5e5, "hidden_act": "silu",
                   "tie_word_embeddings": False, "head_dim": 128}
    cases = [(name, None if change is None else config_405b | change, gpus, rows, tokens) for name, gpus, rows, tokens, change in LARGE]
    paths = {"Llama 3.1 70B": os.path.join(ROOT, "examples", "llama-3.1-70b", "config.json")}
    rows = []
    print(f"{'model':22} {'GPUs':>6} {'plans':>9} {'bounded':>8} {'priced':>7} {'tables':>7} {'search s':>9} {'process s':>9} {'peak MiB':>9}")
    cases.append(("DeepSeek-V3", None, 2048, 15360, 4096))
    paths["DeepSeek-V3"] = os.path.join(ROOT, "test", "data", "deepseek-v3", "config.json")
    for name, model, gpus, batch, tokens in cases:
        with tempfile.TemporaryDirectory() as folder:
            path = paths.get(name) or os.path.join(folder, "config.json")
            if model:
                with open(path, "w") as file:
                    json.dump(model, file)
            begin = time.time()
            child = subprocess.Popen([LLMC, "plan", path, "--gpu", "h100", "--gpus", str(gpus), "--global-batch", str(batch), "--seq",
                                      str(tokens), "--json"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            text = child.stdout.read()
            usage = os.wait4(child.pid, 0)[2]
            out = json.loads(text)
            s = out["search"]
            rows.append({"model": name, "gpus": gpus, "process_s": time.time() - begin, "peak_bytes": usage.ru_maxrss * 1024, **s,
                         "flags": out["chosen"]["flags"]})
            print(f"{name:22} {gpus:6} {s['candidates']:9} {s['bounded']:8} {s['priced']:7} {s['tables']:7} {s['seconds']:9.2f} {rows[-1]['process_s']:9.2f} "
                  f"{usage.ru_maxrss / 1024:9.0f}", flush=True)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cluster")
    parser.add_argument("--models", type=int, default=6)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--out")
    args = parser.parse_args()
    if args.large:
        rows = large(args)
    else:
        if not args.cluster:
            args.cluster = os.path.join(tempfile.mkdtemp(), "machine.json")
            subprocess.run([LLMC, "calibrate", "-o", args.cluster], check=True)
        rows = small(args)
    if args.out:
        with open(args.out, "w") as file:
            json.dump(rows, file, indent=1)
            file.write("\n")


if __name__ == "__main__":
    main()
