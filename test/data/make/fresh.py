"""Models as transformers starts them, their exports, loss and gradients in float64.

usage: fresh.py                                  makes test/data/exports
       fresh.py FOLDER ARCHITECTURE:SEED...      makes drawn models, for test/numerics/live_exports.py;
                                                 gpt2:full is the one of 124M parameters

A model's folder holds one ONNX file for each exporter, draw.json (its sizes, how it was exported, why
an exporter refused), input_ids.npy, labels.npy, oracle.npz, weights.npz (the values at the start, in
the order in which a forward pass uses them).
"""
import json
import logging
import os
import sys
import warnings

import numpy as np
import onnx
import torch
import transformers

from architectures import MASKED, Exact
from common import DATA, write_oracle
from models import Logits
from modules import MODULES

EXPORTERS = {"dynamo": dict(dynamo=True), "plain": dict(dynamo=True, optimize=False),
             "torchscript": dict(dynamo=False)}
SMALL = dict(vocab_size=26, tie_word_embeddings=True, bos_token_id=1, eos_token_id=2, pad_token_id=None,
             num_hidden_layers=4, num_attention_heads=2, hidden_size=8, intermediate_size=12,
             max_position_embeddings=16)
DRAW = dict(length=12, mask=False, dynamic=[0, 1], opset=18, attention="sdpa", names=True)
# What is committed: small, with all that an exporter does to a model that was just initialised.
COMMITTED = {
    "gpt2": dict(DRAW, names=False, fields=dict(
        vocab_size=26, n_positions=16, n_layer=4, n_head=2, n_embd=8, n_inner=12, bos_token_id=1, eos_token_id=2)),
    "qwen3": dict(DRAW, opset=23, fields=dict(SMALL, num_key_value_heads=2, head_dim=4)),
    "gpt_neox": dict(DRAW, names=False, mask=True, fields=dict(SMALL, use_parallel_residual=True, rotary_pct=0.5)),
    "gemma2": dict(DRAW, attention="eager", fields=dict(
        SMALL, num_key_value_heads=2, head_dim=4, sliding_window=5, query_pre_attn_scalar=4,
        layer_types=["full_attention"] * 4)),
    "gates": dict(DRAW, fields=dict(vocabulary=26)),
    "biased": dict(DRAW, fields=dict(vocabulary=26)),
}
FULL = {"gpt2": dict(DRAW, length=64, fields=dict(vocab_size=50257))}
KEPT = {"gpt2": ["dynamo", "plain"], "qwen3": ["dynamo"], "gpt_neox": ["dynamo", "torchscript"], "gemma2": ["plain"],
        "gates": list(EXPORTERS), "biased": list(EXPORTERS)}


class Draw:
    def __init__(self, *key):
        self.rng = np.random.default_rng([*(ord(c) for c in key[0]), key[1]])

    def one(self, *choices):
        return choices[int(self.rng.integers(len(choices)))]

    def chance(self, share):
        return bool(self.rng.random() < share)


def draw_config(d, name):
    """Sizes that four stages and two tensor-parallel ranks can share."""
    heads = d.one(2, 4, 8)
    head_dim = d.one(8, 16)
    layers = d.one(4, 5, 6)
    length = d.one(12, 16)
    common = dict(vocab_size=2 * int(d.rng.integers(20, 100)), tie_word_embeddings=d.chance(0.5),
                  bos_token_id=1, eos_token_id=2, pad_token_id=None)
    if name == "gpt2":
        return dict(common, n_layer=layers, n_head=heads, n_embd=heads * head_dim,
                    n_positions=d.one(16, 40),
                    activation_function=d.one("gelu_new", "gelu", "relu")), length
    fields = dict(common, num_hidden_layers=layers, num_attention_heads=heads, hidden_size=heads * head_dim,
                  intermediate_size=d.one(32, 64, 96), max_position_embeddings=d.one(16, 64))
    if name not in ("gpt_neox", "bert"):
        fields["num_key_value_heads"] = d.one(2, heads)
    if name in ("qwen3", "gemma2", "gemma3_text"):
        fields["head_dim"] = head_dim
    if name == "llama":
        fields.update(attention_bias=d.chance(0.3), mlp_bias=d.chance(0.3))
    elif name == "mistral":
        fields["sliding_window"] = d.one(None, 5)
    elif name == "gpt_neox":
        fields.update(use_parallel_residual=d.chance(0.6), rotary_pct=d.one(0.25, 0.5, 1.0))
    elif name == "phi":
        fields.update(qk_layernorm=d.chance(0.3), partial_rotary_factor=0.5)
    elif name == "nemotron":
        fields.update(attention_bias=d.chance(0.3), mlp_bias=d.chance(0.3))
    elif name in ("gemma2", "gemma3_text"):
        fields.update(num_hidden_layers=8, sliding_window=5, query_pre_attn_scalar=head_dim,
                      layer_types=["sliding_attention", "full_attention"] * 4)
    elif name == "bert":
        fields.update(max_position_embeddings=40, hidden_act=d.one("gelu", "relu"))
    elif name == "mamba":
        length = d.one(4, 6)
        fields = dict(common, num_hidden_layers=4, hidden_size=16, state_size=4, intermediate_size=32)
    return fields, length


def drawn(name, seed):
    d = Draw(name, seed)
    if name in MODULES:
        return dict(DRAW, fields=dict(vocabulary=2 * int(d.rng.integers(20, 100)), width=d.one(8, 16), heads=d.one(2, 4),
                                      inner=d.one(12, 24), layers=d.one(4, 5)),
                    # A bias of distances between constant positions is folded.
                    dynamic=[0, 1] if name == "biased" else d.one([0, 1], [0, 1], [0], []), opset=d.one(18, 20),
                    names=True)
    fields, length = draw_config(d, name)
    return dict(fields=fields, length=length, names=True, mask=d.chance(0.4) and name != "mamba",
                dynamic=[] if name == "mamba" else d.one([0, 1], [0, 1], [0], []), opset=d.one(18, 18, 20, 23),
                # Gemma 2 has its own, Mamba none.
                attention=None if name in ("mamba", "gemma2") else d.one("sdpa", "eager"))


def uses(model, ids):
    """Names of the parameters in the order in which a forward pass uses their modules."""
    names = {id(p): n for n, p in model.named_parameters()}
    order = []

    def seen(module, *_):
        order.extend(n for n in (names[id(p)] for p in module.parameters(recurse=False)) if n not in order)

    hooks = [module.register_forward_pre_hook(seen) for module in model.modules()]
    model(input_ids=ids)
    for hook in hooks:
        hook.remove()
    return order + [n for n in names.values() if n not in order]


def drop_notes(path, names):
    """Removes notes of the exporter but those that say which parameters and modules a node belongs to;
    without `names` these too, as tools do that write a model anew."""
    stored = onnx.load(path)
    for node in stored.graph.node:
        node.ClearField("doc_string")
        kept = [entry for entry in node.metadata_props if names and entry.key.split(".")[-1] in ("fx_node", "name_scopes")]
        del node.metadata_props[:]
        node.metadata_props.extend(kept)
    onnx.save(stored, path)


def export(model, draw, options, path):
    shape = (2, draw["length"])
    ids = torch.zeros(shape, dtype=torch.int64)
    # Without a mask transformers looks for packed rows, in an op that TorchScript cannot export.
    masked = draw["mask"] or not options["dynamo"] and draw["architecture"] not in ("mamba", *MODULES)
    given = dict(input_ids=ids, **({"attention_mask": torch.ones_like(ids)} if masked else {}))
    names = {0: "batch", 1: "sequence"}
    axes = {axis: names[axis] for axis in draw["dynamic"]}
    flags = dict(input_names=list(given), output_names=["logits"], opset_version=draw["opset"])
    if options["dynamo"]:
        dims = {axis: torch.export.Dim(name) for axis, name in axes.items()}
        flags.update(dynamic_shapes={name: dims for name in given}, external_data=False, verbose=False)
    else:
        flags.update(dynamic_axes={name: axes for name in [*given, "logits"]} if axes else {},
                     opset_version=min(draw["opset"], 17))
    torch.onnx.export(model, tuple(given.values()), path, **flags, **options)
    drop_notes(path, draw["names"])


def merged_nodes(draw, names):
    """Pairs of parameters that the optimizer of dynamo makes one, since their nodes compute the same
    from the same: both norms of a layer whose attention and MLP read one tensor."""
    if not draw["fields"].get("use_parallel_residual"):
        return []
    return [[n, n.replace("input_layernorm", "post_attention_layernorm")] for n in names if "input_layernorm" in n]


def from_transformers(name, draw):
    config = transformers.AutoConfig.for_model(name, **draw["fields"])
    if draw["attention"]:
        config._attn_implementation = draw["attention"]
    factory = transformers.AutoModelForMaskedLM if name in MASKED else transformers.AutoModelForCausalLM
    return factory.from_config(config)


def make(folder, name, seed, draw, exporters=tuple(EXPORTERS)):
    torch.manual_seed(seed)
    model = MODULES[name](**draw["fields"]) if name in MODULES else from_transformers(name, draw)
    model.eval()
    model.config.use_cache = False
    os.makedirs(folder, exist_ok=True)
    draw = dict(draw, architecture=name, errors={})
    for exporter in exporters:
        try:
            export(Logits(model).eval(), draw, EXPORTERS[exporter], os.path.join(folder, exporter + ".onnx"))
        except Exception as error:  # noqa: BLE001 - what an exporter cannot do is no fault of ours
            draw["errors"][exporter] = f"{type(error).__name__}: {error}"[:200]
    rng = np.random.default_rng(seed)
    words = draw["fields"].get("vocab_size") or draw["fields"]["vocabulary"]
    ids = rng.integers(3, words, (8, draw["length"]))
    labels = rng.integers(0, words, ids.shape)
    labels[rng.random(ids.shape) < 0.3] = -100
    order = uses(model, torch.as_tensor(ids))
    with Exact():
        write_oracle(folder, model.to(torch.float64), ids, labels)
    # What no loss depends on (a bias beside the one that is used) is in no export.
    used = {n: p for n, p in model.named_parameters() if p.grad is not None}
    draw["parameters"] = sum(p.numel() for p in used.values())
    np.savez(os.path.join(folder, "weights.npz"),
             **{n: used[n].detach().to(torch.float32).numpy() for n in order if n in used})
    draw["merged_nodes"] = merged_nodes(draw, order)
    with open(os.path.join(folder, "draw.json"), "w") as f:
        json.dump(draw, f, indent=1)
        f.write("\n")


def main(arguments):
    logging.disable(logging.WARNING)
    warnings.filterwarnings("ignore")
    if not arguments:
        for name, draw in COMMITTED.items():
            make(os.path.join(DATA, "exports", name), name, 3, draw, KEPT[name])
    for text in arguments[1:]:
        name, seed = text.split(":")
        draw = FULL[name] if seed == "full" else drawn(name, int(seed))
        make(os.path.join(arguments[0], f"{name}-{seed}"), name, 0 if seed == "full" else int(seed), draw)


if __name__ == "__main__":
    main(sys.argv[1:])
