"""Makes one drawn model of an architecture with its oracle, for live.py:
live_architectures.py FOLDER ARCHITECTURE SEED.

Runs in the Python of scripts/oracles.txt. Writes config.json, the weights (in any float type, in
one file or several), input_ids.npy, labels.npy, oracle.npz.
"""
import logging
import os
import sys
import warnings

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "make"))


class Draw:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def one(self, *choices):
        return choices[int(self.rng.integers(len(choices)))]

    def chance(self, share):
        return bool(self.rng.random() < share)


def draw_rope(d, dims, theta, kinds):
    """The object `rope_parameters` for heads of which `dims` elements are turned."""
    kind = d.one(*kinds)
    rope = dict(rope_type=kind, rope_theta=theta)
    if kind in ("linear", "dynamic", "yarn", "llama3"):
        rope["factor"] = d.one(2.0, 4.0, 8.0)
    if kind in ("yarn", "llama3"):
        rope["original_max_position_embeddings"] = d.one(8, 16)
    if kind == "yarn":
        rope.update(d.one({}, dict(beta_fast=8.0, beta_slow=2.0), dict(attention_factor=1.5),
                          dict(mscale=0.7, mscale_all_dim=1.1), dict(truncate=False)))
    if kind == "llama3":
        rope.update(low_freq_factor=1.0, high_freq_factor=d.one(2.0, 4.0))
    if kind == "longrope":
        rope["original_max_position_embeddings"] = d.one(8, 64)
        half = (dims + 1) // 2
        rope["short_factor"] = [float(x) for x in np.round(1 + d.rng.random(half), 2)]
        rope["long_factor"] = [float(x) for x in np.round(1 + 8 * d.rng.random(half), 2)]
    return rope


PLAIN = ("default", "default", "linear", "dynamic", "yarn", "llama3", "longrope")


def draw_decoder(d, name):
    heads = d.one(2, 4, 6, 8)
    head_dim = d.one(4, 8, 10, 16)
    own = name in ("llama", "mistral", "qwen3", "gemma2", "gemma3_text", "nemotron") and d.chance(0.5)
    fields = dict(
        vocab_size=int(d.rng.integers(40, 200)), num_hidden_layers=int(d.rng.integers(1, 6)),
        num_attention_heads=heads, hidden_size=heads * d.one(4, 8, 12) if own else heads * head_dim,
        intermediate_size=d.one(24, 48, 72), initializer_range=0.02,
        max_position_embeddings=d.one(12, 64), pad_token_id=None, bos_token_id=1, eos_token_id=2,
        tie_word_embeddings=d.chance(0.4))
    if own or name in ("qwen3", "gemma2", "gemma3_text", "mixtral"):
        fields["head_dim"] = head_dim
    if name != "gpt_neox":
        fields["num_key_value_heads"] = d.one(*[k for k in (1, 2, heads // 2, heads) if heads % k == 0])
    theta, layers = d.one(100.0, 10000.0, 1e6), fields["num_hidden_layers"]
    fields["rope_parameters"] = draw_rope(d, head_dim, theta, PLAIN)
    window = d.one(1, 3, 6, 40)
    types = [d.one("full_attention", "sliding_attention") for _ in range(layers)]
    if name == "llama":
        fields.update(attention_bias=d.chance(0.3), mlp_bias=d.chance(0.3),
                      hidden_act=d.one("silu", "gelu", "relu2"))
    elif name == "mistral":
        fields.update(sliding_window=d.one(None, window))
    elif name in ("qwen2", "qwen3"):
        fields.update(use_sliding_window=d.chance(0.6), sliding_window=window,
                      max_window_layers=int(d.rng.integers(0, layers + 1)))
        if fields["use_sliding_window"] and d.chance(0.3):
            fields["layer_types"] = types
    elif name == "gpt_neox":
        part = d.one(0.25, 0.5, 1.0)
        fields.update(hidden_act=d.one("gelu", "gelu_new"), use_parallel_residual=d.chance(0.6),
                      attention_bias=d.chance(0.7), rope_parameters=dict(
                          draw_rope(d, int(head_dim * part), theta, PLAIN), partial_rotary_factor=part))
    elif name == "phi":
        part = d.one(0.5, 1.0)
        if int(head_dim * part) % 2:
            part = 1.0
        fields.update(qk_layernorm=d.chance(0.5), rope_parameters=dict(
            draw_rope(d, int(head_dim * part), theta, PLAIN), partial_rotary_factor=part))
    elif name == "nemotron":
        part = d.one(0.25, 0.5, 1.0)
        fields.update(hidden_act=d.one("relu2", "relu2", "gelu"), norm_eps=d.one(1e-5, 1e-2),
                      attention_bias=d.chance(0.3), mlp_bias=d.chance(0.3))
        # In transformers the theta of dynamic positions divides by dims - 2.
        dims = int(head_dim * part)
        kinds = PLAIN if dims > 2 else [kind for kind in PLAIN if kind != "dynamic"]
        fields["rope_parameters"] = dict(draw_rope(d, dims, theta, kinds), partial_rotary_factor=part)
    elif name == "phi3":
        part = d.one(0.5, 1.0) if head_dim % 4 == 0 else 1.0
        rope = dict(draw_rope(d, int(head_dim * part), theta, ("default", "longrope")),
                    partial_rotary_factor=part)
        fields.update(sliding_window=d.one(None, window), rope_parameters=rope,
                      original_max_position_embeddings=rope.get("original_max_position_embeddings", 16))
    elif name == "gemma2":
        fields.update(sliding_window=window, query_pre_attn_scalar=d.one(4, head_dim),
                      attn_logit_softcapping=d.one(None, 2.0, 50.0), attention_bias=d.chance(0.3),
                      final_logit_softcapping=d.one(None, 3.0, 30.0))
    elif name == "gemma3_text":
        fields.update(sliding_window=window, layer_types=types,
                      query_pre_attn_scalar=d.one(4, head_dim), rope_parameters=dict(
                          full_attention=draw_rope(d, head_dim, theta, ("default", "linear")),
                          sliding_attention=dict(rope_type="default", rope_theta=10000.0)))
    elif name == "olmo2":
        fields.update(attention_bias=d.chance(0.3))
    elif name == "gpt_oss":
        fields.update(head_dim=head_dim, num_local_experts=d.one(2, 4, 6), num_experts_per_tok=2,
                      sliding_window=window, layer_types=types, attention_bias=d.chance(0.7),
                      swiglu_limit=d.one(0.1, 7.0))
    elif name == "mixtral":
        # One choice would have the weight 1: the router's gradient would be rounding alone.
        fields.update(num_local_experts=d.one(3, 4, 6), num_experts_per_tok=d.one(2, 3),
                      sliding_window=d.one(None, window))
    elif name in ("qwen2_moe", "qwen3_moe"):
        choices = d.one(1, 2, 3)
        fields.update(num_experts=d.one(3, 4, 8), num_experts_per_tok=choices,
                      norm_topk_prob=choices > 1 and d.chance(0.5),
                      moe_intermediate_size=d.one(12, 24), shared_expert_intermediate_size=d.one(12, 24),
                      decoder_sparse_step=d.one(1, 1, 2), use_sliding_window=d.chance(0.4), sliding_window=window,
                      mlp_only_layers=[i for i in range(layers) if d.chance(0.2)])
    elif name in ("deepseek_v2", "deepseek_v3"):
        draw_deepseek(d, fields, name, theta)
    return fields


def draw_deepseek(d, fields, name, theta):
    rope, groups = d.one(4, 8), d.one(1, 2, 4)
    kept = d.one(*[g for g in (1, 2, 4) if g <= groups])
    fields.update(
        num_key_value_heads=fields["num_attention_heads"], q_lora_rank=d.one(None, 12), kv_lora_rank=d.one(8, 12),
        qk_nope_head_dim=d.one(4, 6), qk_rope_head_dim=rope, v_head_dim=d.one(4, 8, 16),
        n_routed_experts=4 * groups, n_group=groups, topk_group=kept, num_experts_per_tok=d.one(1, 2, 3),
        moe_intermediate_size=d.one(12, 24), n_shared_experts=d.one(1, 2), routed_scaling_factor=d.one(1.0, 2.5),
        first_k_dense_replace=d.one(0, 1), attention_bias=d.chance(0.3),
        rope_parameters=draw_rope(d, rope, theta, ("default", "yarn", "yarn")))
    if name == "deepseek_v2":
        fields["topk_method"] = d.one("greedy", "group_limited_greedy")
    else:
        fields.update(norm_topk_prob=fields["num_experts_per_tok"] > 1 and d.chance(0.7), rope_interleave=d.chance(0.7))


def draw_encoder(d, name):
    heads, layers = d.one(2, 4, 6), int(d.rng.integers(1, 5))
    fields = dict(vocab_size=int(d.rng.integers(40, 200)), max_position_embeddings=d.one(30, 40),
                  tie_word_embeddings=d.chance(0.8), pad_token_id=d.one(0, 1))
    if name == "distilbert":
        return dict(fields, n_layers=layers, n_heads=heads, dim=heads * d.one(4, 8),
                    hidden_dim=d.one(24, 48), activation=d.one("gelu", "relu"))
    return dict(fields, num_hidden_layers=layers, num_attention_heads=heads,
                hidden_size=heads * d.one(4, 8), intermediate_size=d.one(24, 48),
                type_vocab_size=d.one(1, 2), hidden_act=d.one("gelu", "gelu_new", "relu"),
                layer_norm_eps=d.one(1e-12, 1e-5))


def main(folder, name, seed):
    logging.disable(logging.WARNING)
    warnings.filterwarnings("ignore")
    import torch
    from architectures import MASKED, make_model, write

    d = Draw(seed)
    fields = draw_encoder(d, name) if name in MASKED else draw_decoder(d, name)
    model = make_model(name, fields, seed)
    rows, length = 8, d.one(7, 16, 20)
    # Padding's row of a table has no gradient in transformers; here padding is not special.
    ids = d.rng.integers(2, fields["vocab_size"], (rows, length))
    labels = d.rng.integers(0, fields["vocab_size"], (rows, length))
    labels[d.rng.random((rows, length)) < 0.3] = -100
    write(folder, model, ids, labels, shards=d.one(1, 1, 3),
          dtype=d.one(torch.float32, torch.float32, torch.bfloat16, torch.float16))


main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
