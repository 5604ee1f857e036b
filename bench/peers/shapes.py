"""The models and the work that every program of this comparison does."""
import dataclasses


@dataclasses.dataclass
class Work:
    name: str
    kind: str          # gpt2 or llama
    layers: int
    width: int
    heads: int
    kv_heads: int
    inner: int
    words: int
    rows: int          # of a batch
    tokens: int        # of a row

    def config(self):
        """Fields of a Hugging Face config.json."""
        if self.kind == "gpt2":
            return {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_layer": self.layers,
                    "n_embd": self.width, "n_head": self.heads, "n_inner": self.inner, "n_positions": max(self.tokens, 64),
                    "vocab_size": self.words, "activation_function": "gelu_new",
                    "layer_norm_epsilon": 1e-5, "tie_word_embeddings": True,
                    "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
        return {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": self.width,
                "num_hidden_layers": self.layers, "num_attention_heads": self.heads,
                "num_key_value_heads": self.kv_heads, "intermediate_size": self.inner, "vocab_size": self.words,
                "rms_norm_eps": 1e-5, "tie_word_embeddings": False, "rope_theta": 10000.0, "hidden_act": "silu",
                "max_position_embeddings": max(self.tokens, 64)}

    def parameters(self):
        d = self.width
        if self.kind == "gpt2":
            layer = 4 * d * d + 2 * d * self.inner + 9 * d + self.inner
            return self.layers * layer + (self.words + max(self.tokens, 64)) * d + 2 * d
        head = d // self.heads
        layer = 2 * d * d + 2 * d * self.kv_heads * head + 3 * d * self.inner + 2 * d
        return self.layers * layer + 2 * self.words * d + d

    def flops(self, train):
        """Of one batch: 6 x parameters + 6 x layers x width x sequence a token (causal
        attention counted once), a third of it for a forward."""
        a_token = 6 * self.parameters() + 6 * self.layers * self.width * self.tokens
        return self.rows * self.tokens * a_token / (1 if train else 3)


WORKS = {
    "gpt2-small": Work("gpt2-small", "gpt2", 6, 384, 6, 6, 1536, 8192, 8, 256),
    "gpt2-124m": Work("gpt2-124m", "gpt2", 12, 768, 12, 12, 3072, 50257, 2, 256),
    "llama-small": Work("llama-small", "llama", 8, 512, 8, 2, 1408, 8192, 4, 512),
}
