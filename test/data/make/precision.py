"""Makes test/data/precision.json: how far transformers' own models in bfloat16 and float16 are from
float64 on the same weights and batches, for test/numerics/precision.py.

Gradients are those of the model's stored batch, as one vector; losses are those of 8 more batches.
"""
import json
import os

import numpy as np
import torch
import transformers
from safetensors.torch import load_file

from architectures import Exact
from batches import BATCHES, batches
from common import DATA, mean_loss

MODELS = ["gpt2", "llama", "gemma2", "qwen3", "bert"]


def load(folder, dtype):
    config = transformers.AutoConfig.from_pretrained(folder)
    factory = getattr(transformers, config.architectures[0])
    model = factory._from_config(config, attn_implementation="eager")
    weights = {}
    for file in sorted(os.listdir(folder)):
        if file.endswith(".safetensors"):
            weights.update(load_file(os.path.join(folder, file)))
    missing, unexpected = model.load_state_dict(weights, strict=False)
    tied = set(model._tied_weights_keys or [])
    assert not unexpected and all(name in tied or "decoder" in name or "lm_head" in name
                                  for name in missing), (missing, unexpected)
    model.tie_weights()
    return model.to(dtype).eval()


def gradients(model, ids, labels):
    model.zero_grad()
    mean_loss(model, ids, labels).backward()
    return {name: p.grad.to(torch.float64).numpy() for name, p in model.named_parameters()
            if p.grad is not None}


def main():
    result = {}
    for name in MODELS:
        folder = os.path.join(DATA, name)
        stored = [np.load(os.path.join(folder, f + ".npy")) for f in ("input_ids", "labels")]
        with Exact():
            model = load(folder, torch.float64)
            ids, labels = batches(model.config.vocab_size)
            exact = gradients(model, *stored)
            with torch.no_grad():
                losses = [mean_loss(model, i, l).item() for i, l in zip(ids, labels)]
        size = np.sqrt(sum(np.sum(g * g) for g in exact.values()))
        entry = {"losses": losses}
        for key, dtype in (("bf16", torch.bfloat16), ("fp16", torch.float16)):
            model = load(folder, dtype)
            low = gradients(model, *stored)
            distance = np.sqrt(sum(np.sum((low[n] - g) ** 2) for n, g in exact.items()))
            with torch.no_grad():
                errors = [mean_loss(model, i, l).item() - e for i, l, e in zip(ids, labels, losses)]
            entry[key] = {"gradient": distance / size,
                          "loss": float(np.sqrt(np.mean(np.square(errors))))}
        result[name] = entry
        print(name, {k: entry[k] for k in ("bf16", "fp16")})
    with open(os.path.join(DATA, "precision.json"), "w") as f:
        json.dump(result, f, indent=1)
        f.write("\n")


if __name__ == "__main__":
    main()
