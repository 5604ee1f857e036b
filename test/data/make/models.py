"""Small decoders of ten architectures through the exporters of PyTorch: test/data/models.

usage: models.py [FOLDER] [ARCHITECTURE...]
"""
import json
import os
import sys

import numpy as np
import onnx
import torch
import transformers as hf

from exports import strip

HERE = os.path.dirname(os.path.abspath(__file__))
BASE = dict(hidden_size=16, intermediate_size=24, num_attention_heads=2, num_hidden_layers=2, vocab_size=24,
            max_position_embeddings=64, bos_token_id=1, eos_token_id=2, pad_token_id=0)
GROUPED = dict(num_key_value_heads=1)
GEMMA = dict(GROUPED, head_dim=8, num_hidden_layers=4, sliding_window=5, query_pre_attn_scalar=8)
ARCHITECTURES = {
    "mistral": (hf.MistralConfig, hf.MistralForCausalLM, dict(GROUPED, sliding_window=5)),
    "qwen3": (hf.Qwen3Config, hf.Qwen3ForCausalLM, dict(GROUPED, head_dim=8)),
    "gpt_neox": (hf.GPTNeoXConfig, hf.GPTNeoXForCausalLM, dict(rotary_pct=0.5, use_parallel_residual=True)),
    "phi": (hf.PhiConfig, hf.PhiForCausalLM, dict(partial_rotary_factor=0.5)),
    "phi3": (hf.Phi3Config, hf.Phi3ForCausalLM, GROUPED),
    "gemma2": (hf.Gemma2Config, hf.Gemma2ForCausalLM, GEMMA),
    "gemma3": (hf.Gemma3TextConfig, hf.Gemma3ForCausalLM, dict(GEMMA, sliding_window_pattern=2)),
    "olmo2": (hf.Olmo2Config, hf.Olmo2ForCausalLM, GROUPED),
    "qwen3_moe": (hf.Qwen3MoeConfig, hf.Qwen3MoeForCausalLM,
                  dict(GROUPED, head_dim=8, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=12,
                       norm_topk_prob=True)),
    "gpt_oss": (hf.GptOssConfig, hf.GptOssForCausalLM,
                dict(GROUPED, head_dim=8, num_local_experts=4, num_experts_per_tok=2, sliding_window=5)),
}
KINDS = {architecture: ["ts-17-mask", "dynamo-18", "dynamo-23"] for architecture in ARCHITECTURES}
KINDS |= {"qwen3_moe": ["dynamo-18-batched", "ts-17-mask-loop"], "gpt_oss": ["dynamo-18-batched"]}
EXPERTS = {"batched": "batched_mm", "loop": "eager"} # what transformers calls them


class Logits(torch.nn.Module):
    """The model as a function of its ids, and of a mask where one is exported."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, attention_mask=None):
        return self.model(input_ids=input_ids, attention_mask=attention_mask, use_cache=False).logits


def make_model(architecture, kind=""):
    make_config, make, changes = ARCHITECTURES[architecture]
    torch.manual_seed(0)
    config = make_config(**{**BASE, **changes})
    config._attn_implementation = "eager" if architecture in ("gemma2", "gpt_oss") else "sdpa"  # softcap, sinks
    experts = EXPERTS.get(kind.split("-")[-1])
    if experts:
        config._experts_implementation = experts
    model = make(config).eval()
    generator = torch.Generator().manual_seed(1)
    for p in model.parameters():
        # The scores of experts differ by more than roundings.
        scale = 0.1 if p.ndim == 1 else 0.3 if experts else 0
        if scale:
            p.data.add_(scale * torch.randn(p.shape, generator=generator))
    model.config.use_cache = False
    config.architectures = [make.__name__]
    return config, model


def export(model, kind, path):
    exporter, opset, masked = kind.split("-")[0], int(kind.split("-")[1]), "mask" in kind
    ids = torch.randint(0, BASE["vocab_size"], (2, 12))
    given = (ids, torch.ones_like(ids)) if masked else (ids,)
    names = ["input_ids", "attention_mask"][:len(given)]
    flags = dict(input_names=names, output_names=["logits"], opset_version=opset)
    if exporter == "ts":
        axes = {0: "batch", 1: "sequence"}
        torch.onnx.export(Logits(model), given, path, dynamo=False, dynamic_axes={name: axes for name in names},
                          **flags)
    else:
        axes = {0: torch.export.Dim("batch"), 1: torch.export.Dim("sequence")}
        torch.onnx.export(Logits(model), given, path, dynamo=True, dynamic_shapes={name: axes for name in names},
                          external_data=False, verbose=False, **flags)
    strip(path)
    stored = onnx.load(path)
    del stored.graph.value_info[:]  # shapes that every reader finds
    onnx.save(stored, path)


def run(model, folder, masked):
    """Stores inputs and what PyTorch makes of them."""
    arrays = {"input_ids": np.random.default_rng(7).integers(0, BASE["vocab_size"], (2, 12))}
    if masked:
        arrays["attention_mask"] = np.ones_like(arrays["input_ids"])
        arrays["attention_mask"][1, 9:] = 0
    with torch.no_grad():
        logits = Logits(model)(**{name: torch.from_numpy(value) for name, value in arrays.items()})
    np.savez_compressed(os.path.join(folder, "inputs.npz"), **arrays)
    np.savez_compressed(os.path.join(folder, "expected.npz"), logits=logits.numpy())


def main():
    place = sys.argv[1] if len(sys.argv) > 1 else os.path.join(HERE, "..", "models")
    for architecture in sys.argv[2:] or ARCHITECTURES:
        for kind in KINDS[architecture]:
            config, model = make_model(architecture, kind)
            folder = os.path.join(place, architecture, kind)
            os.makedirs(folder, exist_ok=True)
            if not os.path.exists(os.path.join(folder, "model.onnx")):
                export(model, kind, os.path.join(folder, "model.onnx"))
            run(model, folder, "mask" in kind)
        with open(os.path.join(place, architecture, "config.json"), "w") as f:
            json.dump(json.loads(config.to_json_string(use_diff=False)), f, indent=1, sort_keys=True)
            f.write("\n")


if __name__ == "__main__":
    main()
