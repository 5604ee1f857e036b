#!/usr/bin/env python3
"""Predictions of our own programs on this machine, beside what they take.

    ourselves.py [--cluster machine.json] [--draws 24] [--seed 1] [--out FILE.json]

Calibrates the machine unless a cluster file is given, then draws models, meshes and forms, compiles each with
--cluster, trains it for some steps, and compares the predicted with the measured step (the median) and the predicted
with the measured peak of the process. Draws again where a step would take less than 0.1 s. Wants quiet cores.
"""
import argparse
import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LLMC = os.environ.get("LLMC", os.path.join(ROOT, "build", "bin", "llmc"))
UNITS = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


def config(draw):
    """Draws a config.json: a family, and sizes of which a step takes about a second."""
    head = draw.choice([32, 64, 96, 128])
    heads = draw.choice([2, 4, 6, 8])
    width, layers, tokens = head * heads, draw.choice([2, 4, 6]), draw.choice([64, 128, 256, 384, 512])
    vocabulary = draw.choice([1000, 2048, 5000, 8192, 12000])
    family = draw.choice(["gpt2", "llama", "llama", "qwen2", "mistral", "gpt_neox", "mixtral"])
    kv = draw.choice([n for n in (2, heads // 2, heads) if n > 0 and heads % n == 0])
    inner = draw.choice([2, 3, 4]) * width
    if family == "gpt2":
        return family, {"architectures": ["GPT2LMHeadModel"], "n_embd": width, "n_head": heads, "n_layer": layers,
                        "vocab_size": vocabulary, "n_positions": tokens, "layer_norm_epsilon": 1e-5,
                        "activation_function": "gelu_new"}
    common = {"hidden_size": width, "num_attention_heads": heads, "num_hidden_layers": layers,
              "intermediate_size": inner, "vocab_size": vocabulary, "max_position_embeddings": tokens,
              "tie_word_embeddings": draw.choice([True, False])}
    if family == "gpt_neox":
        return family, common | {"architectures": ["GPTNeoXForCausalLM"], "hidden_act": "gelu", "layer_norm_eps": 1e-5,
                                 "rotary_pct": 0.25, "rotary_emb_base": 10000, "use_parallel_residual": True}
    common |= {"num_key_value_heads": kv, "hidden_act": "silu", "rms_norm_eps": 1e-5, "rope_theta": 10000.0}
    if family == "mixtral":
        common |= {"num_local_experts": draw.choice([4, 8]), "num_experts_per_tok": 2, "intermediate_size": width,
                   "tie_word_embeddings": False}
    name = {"llama": "LlamaForCausalLM", "qwen2": "Qwen2ForCausalLM", "mistral": "MistralForCausalLM",
            "mixtral": "MixtralForCausalLM"}[family]
    return family, common | {"architectures": [name]}


def form(draw, family, model):
    """Draws a mesh and choices for a model."""
    layers = model.get("n_layer", model.get("num_hidden_layers"))
    heads = model.get("n_head", model.get("num_attention_heads"))
    kv = model.get("num_key_value_heads", heads)
    dp, pp = draw.choice([1, 1, 2, 4]), draw.choice([n for n in (1, 1, 2) if layers % n == 0])
    tp = draw.choice([n for n in (1, 1, 2) if heads % n == 0 and kv % n == 0])
    flags = {"dp": dp, "pp": pp, "tp": tp, "precision": draw.choice(["fp32", "fp32", "bf16"]),
             "micro-batch": draw.choice([1, 2]), "zero": draw.choice([0, 1, 2, 3]) if dp > 1 else 0,
             "recompute": draw.choice(["none", "none", "selective", "full"])}
    if pp > 1:
        flags["schedule"] = draw.choice(["1f1b", "gpipe", "zero-bubble"])
    if family == "mixtral" and dp > 1:
        flags["ep"] = draw.choice([1, 2])
    elif dp * pp * tp < 4 and draw.random() < 0.3:
        flags["cp"] = 2
    return flags


def compiled(folder, family, model, flags, cluster):
    path, out = os.path.join(folder, "config.json"), os.path.join(folder, "program")
    with open(path, "w") as file:
        json.dump({"model_type": family} | model, file)
    words = [word for name, value in flags.items() for word in ("--" + name, str(value))]
    run = subprocess.run([LLMC, "compile", path, "-o", out, "--cluster", cluster, *words], capture_output=True, text=True)
    if run.returncode:
        return None, run.stderr
    line = next(line for line in run.stdout.splitlines() if line.startswith("predicted"))
    step = float(re.search(r"step (\S+) s", line).group(1))
    peak, unit = re.search(r"process (\S+) (\w+)", line).groups()
    return (out, step, float(peak) * UNITS[unit]), ""


def trained(folder, out, steps, vocabulary):
    """Trains and returns the median of the steps' seconds and the peak of the process, in bytes."""
    tokens, metrics = os.path.join(folder, "tokens.bin"), os.path.join(folder, "metrics")
    with open(tokens, "wb") as file:
        draw = random.Random(1)
        file.write(b"".join(draw.randrange(vocabulary).to_bytes(2, "little") for _ in range(1 << 17)))
    child = subprocess.Popen([out, "--data", tokens, "--steps", str(steps), "--metrics", metrics, "--force", "--quiet"],
                             stdout=subprocess.DEVNULL)
    status, usage = os.wait4(child.pid, 0)[1:]
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise RuntimeError("the program failed")
    with open(metrics) as file:
        times = [json.loads(line)["step_time_s"] for line in file]
    return statistics.median(times[2:]), usage.ru_maxrss * 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cluster")
    parser.add_argument("--draws", type=int, default=24)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out")
    args = parser.parse_args()
    draw, rows = random.Random(args.seed), []
    with tempfile.TemporaryDirectory() as folder:
        cluster = args.cluster
        if not cluster:
            cluster = os.path.join(folder, "machine.json")
            subprocess.run([LLMC, "calibrate", "-o", cluster], check=True)
        print(f"{'family':9} {'width':>5} {'layers':>6} {'tokens':>6}  {'predicted':>9} {'measured':>9} {'step':>6} {'peak':>6}  form")
        while len(rows) < args.draws:
            family, model = config(draw)
            flags = form(draw, family, model)
            made, why = compiled(folder, family, model, flags, cluster)
            if not made:
                print("refused:", why.strip().splitlines()[0][:150], file=sys.stderr)
                continue
            out, step, peak = made
            if step < 0.1:
                continue  # how soon a thread wakes would decide
            measured, used = trained(folder, out, 24 if step < 0.5 else 10, model["vocab_size"])
            row = {"family": family, "model": model, "flags": flags, "predicted_s": step, "measured_s": measured,
                   "predicted_peak": peak, "measured_peak": used}
            rows.append(row)
            width = model.get("n_embd", model.get("hidden_size"))
            layers = model.get("n_layer", model.get("num_hidden_layers"))
            tokens = model.get("n_positions", model.get("max_position_embeddings"))
            print(f"{family:9} {width:5} {layers:6} {tokens:6}  {step:9.4f} {measured:9.4f} {100 * (step / measured - 1):+5.1f}% "
                  f"{100 * (peak / used - 1):+5.1f}%  " + " ".join(f"{k} {v}" for k, v in flags.items()), flush=True)
    errors = [abs(row["predicted_s"] / row["measured_s"] - 1) for row in rows]
    peaks = [abs(row["predicted_peak"] / row["measured_peak"] - 1) for row in rows]
    print(f"step: off by {100 * statistics.mean(errors):.1f} % on average, {100 * max(errors):.1f} % at most; "
          f"peak of the process: {100 * statistics.mean(peaks):.1f} % on average, {100 * max(peaks):.1f} % at most")
    if args.out:
        with open(args.out, "w") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
