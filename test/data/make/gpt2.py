"""Makes our own GPT-2: config, weights, both ONNX exports, forward, loss and gradients."""
import os

import numpy as np
import onnx
import torch
from safetensors.torch import save_file
from transformers import GPT2Config, GPT2LMHeadModel

from common import DATA, IGNORED, ROOT, load_model, write_forward, write_oracle


class Logits(GPT2LMHeadModel):
    """The model as a function of its ids, and of a mask where one is exported."""

    def forward(self, input_ids, attention_mask=None):
        return super().forward(input_ids=input_ids, attention_mask=attention_mask,
                               use_cache=False).logits


def random_weights(model, generator):
    """Every tensor away from its usual start, so that each gradient is worth comparing."""
    with torch.no_grad():
        for name, p in model.named_parameters():
            noise = torch.randn(p.shape, generator=generator)
            if p.dim() >= 2:
                p.copy_(0.12 * noise)
            elif "ln_" in name and name.endswith("weight"):
                p.copy_(1 + 0.1 * noise)
            else:
                p.copy_(0.1 * noise)


def strip(path):
    """Removes stack traces and other notes of the exporter."""
    model = onnx.load(path)
    for holder in [model, model.graph, *model.graph.node, *model.graph.initializer,
                   *model.graph.value_info, *model.graph.input, *model.graph.output]:
        holder.ClearField("doc_string")
        holder.ClearField("metadata_props")
    onnx.save(model, path)


def export_dynamo(model, path):
    ids = torch.zeros((2, 12), dtype=torch.int64)
    batch, sequence = torch.export.Dim("batch"), torch.export.Dim("sequence")
    torch.onnx.export(model, (ids,), path, dynamo=True, opset_version=18,
                      input_names=["input_ids"], output_names=["logits"], external_data=False,
                      dynamic_shapes={"input_ids": {0: batch, 1: sequence}},
                      verbose=False)
    strip(path)


def export_torchscript(model, path):
    ids = torch.zeros((2, 12), dtype=torch.int64)
    axes = {0: "batch", 1: "sequence"}
    torch.onnx.export(model, (ids, torch.ones_like(ids)), path, dynamo=False,
                      opset_version=17, input_names=["input_ids", "attention_mask"],
                      output_names=["logits"],
                      dynamic_axes={"input_ids": axes, "attention_mask": axes, "logits": axes})
    strip(path)


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
