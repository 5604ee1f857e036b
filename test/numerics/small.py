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
}


def write_small(folder, name):
    """Writes FOLDER/NAME.json and returns its path."""
    path = os.path.join(folder, name + ".json")
    with open(path, "w") as f:
        json.dump(SMALL[name], f)
    return path
