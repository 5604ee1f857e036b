"""Makes test/data/ARCHITECTURE: a small config, random weights, loss and gradients of transformers
in float64. `architectures.py [NAME ...]` makes those named, or all."""
import json
import os
import sys

import numpy as np
import torch
import transformers
from safetensors.torch import save_file

from common import DATA, IGNORED, mean_loss, write_oracle

ROWS, LENGTH = 8, 16
TINY = dict(vocab_size=67, hidden_size=24, intermediate_size=40, num_hidden_layers=2,
            num_attention_heads=4, max_position_embeddings=64, pad_token_id=None,
            bos_token_id=1, eos_token_id=2)
ROPE = dict(rope_type="default", rope_theta=10000.0)

# What each small model has that a reader could get wrong. Windows are shorter than the row.
SMALL = {
    "llama": dict(TINY, num_key_value_heads=2, head_dim=8, attention_bias=True, mlp_bias=True, rope_parameters=dict(
        rope_type="llama3", rope_theta=5000.0, factor=8.0, low_freq_factor=1.0,
        high_freq_factor=4.0, original_max_position_embeddings=16)),
    "mistral": dict(TINY, num_key_value_heads=1, head_dim=8, sliding_window=5),
    "qwen2": dict(TINY, num_key_value_heads=2, tie_word_embeddings=True, use_sliding_window=True,
                  sliding_window=6, max_window_layers=1),
    "qwen3": dict(TINY, num_key_value_heads=1, head_dim=8, rope_parameters=dict(
        rope_type="yarn", rope_theta=10000.0, factor=4.0, original_max_position_embeddings=16)),
    "gpt_neox": dict(TINY, hidden_size=32, intermediate_size=32, rope_parameters=dict(
        ROPE, partial_rotary_factor=0.5)),
    "phi": dict(TINY, hidden_size=32, qk_layernorm=True, num_key_value_heads=2),
    "phi3": dict(TINY, num_key_value_heads=2, hidden_size=32, intermediate_size=32,
                 sliding_window=7, original_max_position_embeddings=8, rope_parameters=dict(
                     rope_type="longrope", rope_theta=10000.0, partial_rotary_factor=0.75,
                     short_factor=[1.0, 1.1, 1.2], long_factor=[1.0, 1.5, 4.0],
                     original_max_position_embeddings=8)),
    "gemma2": dict(TINY, num_key_value_heads=1, head_dim=8, sliding_window=5,
                   query_pre_attn_scalar=10, attn_logit_softcapping=2.0,
                   final_logit_softcapping=3.0),
    "gemma3_text": dict(TINY, num_hidden_layers=3, intermediate_size=24, num_key_value_heads=1,
                        head_dim=8, sliding_window=5, query_pre_attn_scalar=10,
                        layer_types=["sliding_attention", "full_attention", "sliding_attention"],
                        rope_parameters=dict(
                            sliding_attention=ROPE,
                            full_attention=dict(rope_type="linear", rope_theta=1e6, factor=8.0))),
    "olmo2": dict(TINY, num_key_value_heads=2, vocab_size=43, intermediate_size=24),
    "mixtral": dict(TINY, num_key_value_heads=2, intermediate_size=24, num_local_experts=8, num_experts_per_tok=2),
    "qwen2_moe": dict(TINY, num_key_value_heads=2, intermediate_size=32, num_experts=8, num_experts_per_tok=3,
                      moe_intermediate_size=12, shared_expert_intermediate_size=20, use_sliding_window=True,
                      sliding_window=6, max_window_layers=1),
    "qwen3_moe": dict(TINY, num_key_value_heads=1, head_dim=8, num_hidden_layers=3, intermediate_size=32,
                      num_experts=8, num_experts_per_tok=3, moe_intermediate_size=12, norm_topk_prob=True,
                      mlp_only_layers=[1]),
    "deepseek_v2": dict(TINY, q_lora_rank=None, kv_lora_rank=12, qk_nope_head_dim=6, qk_rope_head_dim=4, v_head_dim=8,
                        n_routed_experts=8, num_experts_per_tok=3, moe_intermediate_size=12, n_shared_experts=2,
                        first_k_dense_replace=1, topk_method="group_limited_greedy", n_group=4, topk_group=2,
                        routed_scaling_factor=1.5),
    "deepseek_v3": dict(TINY, num_key_value_heads=4, num_hidden_layers=3, q_lora_rank=16, kv_lora_rank=12,
                        qk_nope_head_dim=6, qk_rope_head_dim=4, v_head_dim=8, attention_bias=True, n_routed_experts=8,
                        num_experts_per_tok=3, moe_intermediate_size=12, n_shared_experts=1, first_k_dense_replace=1,
                        n_group=4, topk_group=2, routed_scaling_factor=2.5, rope_parameters=dict(
                            rope_type="yarn", rope_theta=10000.0, factor=4.0, mscale=0.7, mscale_all_dim=1.1,
                            beta_fast=32.0, beta_slow=1.0, original_max_position_embeddings=16)),
    "gpt_oss": dict(TINY, num_key_value_heads=2, head_dim=8, intermediate_size=12, num_local_experts=8,
                    num_experts_per_tok=2, sliding_window=5, swiglu_limit=0.1, rope_parameters=dict(
                        rope_type="yarn", rope_theta=150000.0, factor=4.0, beta_fast=32.0, beta_slow=1.0,
                        truncate=False, original_max_position_embeddings=16)),
    "bert": dict(TINY, max_position_embeddings=20),
    "roberta": dict(TINY, max_position_embeddings=20, pad_token_id=1),
    "distilbert": dict(vocab_size=67, dim=24, hidden_dim=40, n_layers=2, n_heads=4,
                       max_position_embeddings=20, pad_token_id=None),
    "nemotron": dict(TINY, num_key_value_heads=2, head_dim=8, attention_bias=True, rope_parameters=dict(
        ROPE, partial_rotary_factor=0.75)),
}
MASKED = ("bert", "roberta", "distilbert")
# Written with a tensor for each expert, as published; the others have all experts in one.
ONE_BY_ONE = {"mixtral": ("block_sparse_moe", "w1", "w3", "w2"),
              "qwen3_moe": ("mlp", "gate_proj", "up_proj", "down_proj"),
              "deepseek_v3": ("mlp", "gate_proj", "up_proj", "down_proj")}
ROUTERS = (".mlp.gate.weight", ".mlp.router.weight")


def make_model(model_type, fields, seed):
    """A model of transformers in float32 with every tensor away from its usual start, so that
    each gradient is worth comparing; small enough that float32 can compute it."""
    config = transformers.AutoConfig.for_model(model_type, **fields)
    factory = transformers.AutoModelForMaskedLM if model_type in MASKED \
        else transformers.AutoModelForCausalLM
    config._experts_implementation = "eager"
    model = factory.from_config(config, attn_implementation="eager").eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in stored_tensors(model).items():
            noise = torch.randn(p.shape, generator=generator)
            if p.dim() == 1:
                p.copy_(p.mean().round() + 0.1 * noise)
            else:
                # Scores of a router lie far apart, so that rounding changes no choice.
                p.copy_((0.6 if name.endswith(ROUTERS) else 0.2) * min(1, 32 / p.shape[-1]) ** 0.5 * noise)
    return model


def stored_tensors(model):
    """Name -> parameter, or tensor that is stored beside them and not trained."""
    stored = model.state_dict().keys()
    return dict(model.named_parameters(), **{n: b for n, b in model.named_buffers() if n in stored})


def published(model_type, tensors):
    """The tensors under the names and in the shapes of published checkpoints."""
    out = {}
    block, *parts = ONE_BY_ONE.get(model_type, (None,))
    for name, tensor in tensors.items():
        layer, found, rest = name.partition(".mlp.")
        if not block or not found or rest not in ("gate.weight", "experts.gate_up_proj", "experts.down_proj"):
            out[name] = tensor
            continue
        prefix = f"{layer}.{block}."
        if rest == "gate.weight":
            out[prefix + rest] = tensor
            continue
        for expert, matrix in enumerate(tensor):
            half = matrix.shape[0] // 2
            pieces = {parts[2]: matrix} if rest == "experts.down_proj" else {
                parts[0]: matrix[:half], parts[1]: matrix[half:]}
            for part, piece in pieces.items():
                out[f"{prefix}experts.{expert}.{part}.weight"] = piece
    return out


class Exact:
    """In float64 models of transformers norms and softmax still round to float32; here they do not."""

    def __enter__(self):
        self.saved = (torch.Tensor.float, torch.Tensor.to, torch.nn.functional.softmax, torch.Tensor.type,
                      torch.Tensor.softmax)
        to, softmax, cast, own_softmax = self.saved[1:]

        def keep(tensor, *arguments, **named):
            wanted = named.get("dtype", arguments[0] if arguments else None)
            if tensor.dtype == torch.float64 and wanted == torch.float32:
                return tensor
            return to(tensor, *arguments, **named)

        torch.Tensor.float = torch.Tensor.double
        torch.Tensor.to = keep
        torch.nn.functional.softmax = lambda x, dim=None, dtype=None, **_: softmax(x, dim=dim)
        torch.Tensor.type = lambda x, *a: x if x.dtype == torch.float64 and a == (torch.float32,) else cast(x, *a)
        torch.Tensor.softmax = lambda x, dim=None, dtype=None: own_softmax(x, dim=dim)

    def __exit__(self, *_):
        (torch.Tensor.float, torch.Tensor.to, torch.nn.functional.softmax, torch.Tensor.type,
         torch.Tensor.softmax) = self.saved


def write(folder, model, ids, labels, shards=1, dtype=torch.float32):
    """Everything of one folder. Weights are rounded to `dtype` first, so that the oracle has them."""
    os.makedirs(folder, exist_ok=True)
    with torch.no_grad():
        for p in stored_tensors(model).values():
            p.copy_(p.to(dtype))
    weights = {name: p.detach().to(dtype).contiguous()
               for name, p in published(model.config.model_type, stored_tensors(model)).items()}
    model.config.architectures = [type(model).__name__]
    model.config.to_json_file(os.path.join(folder, "config.json"))
    names = list(weights)
    parts = [names[i::shards] for i in range(shards)]
    files = ["weights.safetensors"] if shards == 1 else [
        f"model-{i + 1:05}-of-{shards:05}.safetensors" for i in range(shards)]
    for file, part in zip(files, parts):
        path = os.path.join(folder, file)
        save_file({name: weights[name] for name in part}, path, {"format": "pt"})
        os.chmod(path, 0o644)
    if shards > 1:
        with open(os.path.join(folder, "model.safetensors.index.json"), "w") as f:
            json.dump({"metadata": {}, "weight_map": {n: file for file, part in zip(files, parts)
                                                      for n in part}}, f, indent=1)
    with Exact():
        return write_oracle(folder, model.to(torch.float64), ids, labels,
                            lambda tensors: published(model.config.model_type, tensors))


def main(names):
    for name in names or SMALL:
        seed = 40 + list(SMALL).index(name)
        rng = np.random.default_rng(seed)
        fields = SMALL[name]
        # No padding: transformers gives its row of the table no gradient.
        ids = rng.integers(3, fields["vocab_size"], (ROWS, LENGTH))
        labels = rng.integers(0, fields["vocab_size"], (ROWS, LENGTH))
        labels[rng.random(labels.shape) < np.linspace(0, 0.8, ROWS)[:, None]] = IGNORED
        if name in MASKED:
            labels[rng.random(labels.shape) < 0.5] = IGNORED
        extra = {"qwen2": dict(dtype=torch.bfloat16), "phi3": dict(dtype=torch.float16),
                 "gemma2": dict(shards=2), "olmo2": dict(dtype=torch.float64)}.get(name, {})
        folder = os.path.join(DATA, name)
        loss = write(folder, make_model(name, fields, seed), ids, labels, **extra)
        size = sum(os.path.getsize(os.path.join(folder, f)) for f in os.listdir(folder))
        print(f"{name}: loss {loss:.6f}, {size // 1024} KiB")


if __name__ == "__main__":
    main(sys.argv[1:])
