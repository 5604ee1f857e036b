"""Training in bf16 and fp16 beside fp32 and PyTorch's autocast: losses of AdamW on real text.

    scripts/oracles.sh && build/oracles/bin/python bench/precision.py [--models gpt2,llama] [--steps 300] [--json F]

Two models of about ten million parameters read the reference of the Python language, which every
Python carries (pydoc_data.topics, 0.5 MB); a byte is a token and no row is read twice. All runs
start from the same weights and read the same rows in the same order. Prints the mean loss of the
last 30 steps of each, and how far it is from our fp32; the exit status is 1 if bf16 is more than
1 % off.
"""
import argparse
import json
import os
import pathlib
import pydoc_data.topics
import statistics
import subprocess
import sys
import tempfile

import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LLMC = os.path.join(ROOT, "build", "bin", "llmc")
TOKENS, ROWS, MICRO = 128, 8, 2
RATE, WARMUP, DECAY, BETAS, EPS, CLIP = 1e-3, 30, 0.1, (0.9, 0.95), 1e-8, 1.0
LAST, LIMIT = 30, 0.01
MODELS = {
    "gpt2": {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_layer": 6, "n_embd": 384, "n_head": 6,
             "n_positions": TOKENS, "vocab_size": 256, "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5,
             "tie_word_embeddings": True, "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0},
    "llama": {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 384, "num_hidden_layers": 6,
              "num_attention_heads": 6, "num_key_value_heads": 2, "intermediate_size": 1024, "vocab_size": 256,
              "rms_norm_eps": 1e-5, "tie_word_embeddings": False, "rope_theta": 10000.0, "hidden_act": "silu",
              "max_position_embeddings": TOKENS},
}
OURS = [("llmc fp32", "fp32"), ("llmc bf16, fp32 gradients", "bf16"),
        ("llmc bf16, bf16 gradients", "bf16", "--grad-dtype", "bf16"), ("llmc fp16", "fp16")]
THEIRS = [("PyTorch fp32", False), ("PyTorch autocast to bf16", True)]


def rows_of_text(count):
    """Returns inputs and labels [count, TOKENS]: rows of the text, in a fixed drawn order."""
    text = np.frombuffer("\n\n".join(pydoc_data.topics.topics.values()).encode(), np.uint8)
    starts = np.random.default_rng(0).permutation((len(text) - 1) // TOKENS)[:count] * TOKENS
    if len(starts) < count:
        raise SystemExit(f"the text has {len(starts)} rows, {count} are needed")
    at = starts[:, None] + np.arange(TOKENS)
    return text[at].astype(np.int64), text[at + 1].astype(np.int64)


def train_ours(folder, config, inputs, precision, *flags):
    """Trains with a program of llmc; returns the losses and how many steps were skipped."""
    program, metrics = folder / "program", folder / "metrics"
    subprocess.run([LLMC, "compile", config, "-o", program, "--seq", str(TOKENS), "--micro-batch", str(MICRO),
                    "--global-batch", str(ROWS), "--precision", precision, *flags, "-q"], check=True)
    names = [flag for name in inputs for flag in ("--input", f"{name}={folder / name}.npy")]
    metrics.unlink(missing_ok=True)
    subprocess.run([program, *names, "--steps", str(len(inputs["labels"]) // ROWS), "--weights", folder / "hf",
                    "--metrics", metrics, "--lr", str(RATE), "--warmup", str(WARMUP), "--weight-decay", str(DECAY),
                    "--beta1", str(BETAS[0]), "--beta2", str(BETAS[1]), "--eps", str(EPS), "--clip", str(CLIP), "-q"],
                   check=True)
    lines = [json.loads(line) for line in metrics.read_text().splitlines()]
    return [line["loss"] for line in lines if not line.get("skipped")], sum(line.get("skipped", 0) for line in lines)


def train_theirs(folder, inputs, autocast):
    """Trains the model of transformers; the masters are its weights, in fp32."""
    import torch
    from transformers import AutoModelForCausalLM
    model = AutoModelForCausalLM.from_pretrained(folder / "hf")
    groups = [{"params": [p for p in model.parameters() if (p.dim() > 1) == decays], "weight_decay": decay}
              for decays, decay in ((True, DECAY), (False, 0.0))]
    optimizer = torch.optim.AdamW(groups, lr=RATE, betas=BETAS, eps=EPS, fused=True)
    losses = []
    for step in range(len(inputs["labels"]) // ROWS):
        x, y = (torch.from_numpy(inputs[name][step * ROWS:(step + 1) * ROWS]) for name in ("input_ids", "labels"))
        for group in optimizer.param_groups:
            group["lr"] = RATE * min(1, (step + 1) / WARMUP)
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            logits = model(x, use_cache=False).logits
        loss = torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), y.flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        losses.append(loss.item())
    return losses, 0


def write_weights(config, folder):
    """Draws the weights that all runs start from; returns their number."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(config))
    model.save_pretrained(folder)
    return sum(p.numel() for p in model.parameters())


def compare(name, steps):
    x, y = rows_of_text(steps * ROWS)
    inputs = {"input_ids": x, "labels": y}
    report = {"model": name, "steps": steps, "runs": {}}
    with tempfile.TemporaryDirectory(prefix="llmc-precision-") as folder:
        folder = pathlib.Path(folder)
        config = folder / "config.json"
        config.write_text(json.dumps(MODELS[name]))
        report["parameters"] = write_weights(config, folder / "hf")
        for key, value in inputs.items():
            np.save(folder / f"{key}.npy", value)
        print(f"{name}: {report['parameters']:,} parameters, {steps} steps of {ROWS} rows of {TOKENS} bytes", flush=True)
        for title, train, *choice in [(t, train_ours, config, inputs, *c) for t, *c in OURS] + \
                                     [(t, train_theirs, inputs, *c) for t, *c in THEIRS]:
            losses, skipped = train(folder, *choice)
            mean = statistics.mean(losses[-LAST:])
            first = report["runs"].setdefault(OURS[0][0], {"mean": mean})["mean"]
            report["runs"][title] = {"mean": mean, "of_fp32": mean / first - 1, "skipped": skipped, "losses": losses}
            print(f"  {title:26} {mean:.5f}  {100 * (mean / first - 1):+.3f} %"
                  + (f", {skipped} steps skipped" if skipped else ""), flush=True)
    return report


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    report = [compare(name, arguments.steps) for name in arguments.models.split(",")]
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=1) + "\n")
    off = [f"{r['model']}, {title}" for r in report for title, run in r["runs"].items()
           if "llmc bf16" in title and abs(run["of_fp32"]) > LIMIT]
    print("more than 1 % off: " + "; ".join(off) if off else "bf16 is within 1 % of fp32")
    sys.exit(1 if off else 0)


if __name__ == "__main__":
    main()
