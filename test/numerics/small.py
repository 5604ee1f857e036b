"""The smallest models that have what their architectures have."""
import json
import os

SMALL = {
    "gpt2": {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_layer": 2,
             "n_embd": 16, "n_head": 2, "n_positions": 8, "vocab_size": 16,
             "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5, "attn_pdrop": 0,
             "embd_pdrop": 0, "resid_pdrop": 0, "tie_word_embeddings": True},
    "llama": {"model_type": "llama", "architectures": ["LlamaForCausalLM"],
              "num_hidden_layers": 2, "hidden_size": 16, "num_attention_heads": 4,
              "num_key_value_heads": 2, "intermediate_size": 24, "max_position_embeddings": 16,
              "vocab_size": 16, "hidden_act": "silu", "rms_norm_eps": 1e-5,
              "rope_theta": 10000.0, "attention_bias": False, "mlp_bias": False,
              "tie_word_embeddings": False, "attention_dropout": 0.0,
              "initializer_range": 0.02},
    "mixtral": {"model_type": "mixtral", "architectures": ["MixtralForCausalLM"], "vocab_size": 32,
                "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2,
                "num_attention_heads": 4, "num_key_value_heads": 2, "num_local_experts": 4,
                "num_experts_per_tok": 2, "max_position_embeddings": 64, "initializer_range": 0.2},
    "deepseek_v3": {"model_type": "deepseek_v3", "architectures": ["DeepseekV3ForCausalLM"],
                    "vocab_size": 32, "hidden_size": 16, "intermediate_size": 24,
                    "moe_intermediate_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2,
                    "num_key_value_heads": 2, "q_lora_rank": 8, "kv_lora_rank": 8,
                    "qk_nope_head_dim": 4, "qk_rope_head_dim": 4, "v_head_dim": 4,
                    "n_routed_experts": 8, "n_shared_experts": 1, "num_experts_per_tok": 2,
                    "n_group": 4, "topk_group": 2, "first_k_dense_replace": 1,
                    "routed_scaling_factor": 1.5, "norm_topk_prob": True,
                    "max_position_embeddings": 64, "initializer_range": 0.2},
}


def write_small(folder, name):
    """Writes FOLDER/NAME.json and returns its path."""
    path = os.path.join(folder, name + ".json")
    with open(path, "w") as f:
        json.dump(SMALL[name], f)
    return path
