"""Makes our own GPT-2: config, weights, both ONNX exports, forward, loss and gradients."""
import os

import numpy as np
import torch
from safetensors.torch import save_file
from transformers import GPT2Config

from common import DATA, IGNORED, ROOT, load_model, write_forward, write_oracle
from exports import Logits, export_dynamo, export_torchscript, random_weights


def make(folder, config, seed, exports, usual_start=False):
    os.makedirs(folder, exist_ok=True)
    torch.manual_seed(seed)
    model = Logits(config).eval()
    generator = torch.Generator().manual_seed(seed)
    if usual_start:
        # Exporters write equal tensors once; fresh norms and biases are equal, trained ones are not.
        with torch.no_grad():
            for p in model.parameters():
                if p.dim() == 1:
                    p.add_(0.01 * torch.randn(p.shape, generator=generator))
    else:
        random_weights(model, generator)
    config.architectures = ["GPT2LMHeadModel"]
    config.to_json_file(os.path.join(folder, "config.json"))
    weights = {n: p.detach().contiguous() for n, p in model.named_parameters()}
    save_file(weights, os.path.join(folder, "weights.safetensors"), {"format": "pt"})
    os.chmod(os.path.join(folder, "weights.safetensors"), 0o644)
    for export, name in exports:
        export(model, os.path.join(folder, name))
    return model


def uneven_labels(rng, ids, vocabulary):
    """About 30 % ignored: none in some rows, most of others."""
    labels = rng.integers(0, vocabulary, ids.shape)
    shares = np.resize([0.0, 0.6, 0.1, 0.9, 0.3, 0.0, 0.5, 0.1], len(ids))
    for row, share in zip(labels, shares):
        row[rng.random(len(row)) < share] = IGNORED
    return labels


def config(layers, width, heads, vocabulary, positions):
    return GPT2Config(n_layer=layers, n_embd=width, n_head=heads, vocab_size=vocabulary,
                      n_positions=positions, bos_token_id=0, eos_token_id=0)


def main():
    folder = os.path.join(DATA, "gpt2")
    make(folder, config(4, 64, 8, 257, 64), 20, [(export_dynamo, "dynamo.onnx"),
                                                 (export_torchscript, "torchscript.onnx")])
    rng = np.random.default_rng(21)
    ids = rng.integers(0, 257, (8, 16))
    labels = uneven_labels(rng, ids, 257)
    model = load_model(folder)
    write_forward(folder, model, ids[:2])
    loss = write_oracle(folder, model, ids, labels)
    print(f"loss {loss:.6f}, ignored by row {(labels == IGNORED).sum(1).tolist()} of {ids.shape[1]}")
    # The example starts as GPT-2 starts, so that its loss falls as in a real run.
    example = os.path.join(ROOT, "examples", "gpt2")
    make(example, config(4, 64, 4, 256, 64), 22, [(export_dynamo, "model.onnx")], usual_start=True)
    os.remove(os.path.join(example, "weights.safetensors"))


main()
