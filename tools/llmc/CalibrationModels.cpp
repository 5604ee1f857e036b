#include "tools/llmc/CalibrationModels.h"

#include "lib/support/Error.h"

namespace llmc {
namespace {
using support::text;

// Returns the config of a Llama-like model: gated feed-forward, root-mean-square norms, rotary positions.
std::string llama(int width, int heads, int kvHeads, int inner, int layers, int vocabulary, int tokens) {
  return text(R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": )", width,
              R"(, "num_attention_heads": )", heads, R"(, "num_key_value_heads": )", kvHeads,
              R"(, "intermediate_size": )", inner, R"(, "num_hidden_layers": )", layers, R"(, "vocab_size": )",
              vocabulary, R"(, "max_position_embeddings": )", tokens,
              R"(, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu", "tie_word_embeddings": false})");
}

// Returns the config of a GPT-2-like model: plain feed-forward, layer norms, learned positions.
std::string gpt2(int width, int heads, int layers, int vocabulary, int tokens) {
  return text(R"({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_embd": )", width, R"(, "n_head": )",
              heads, R"(, "n_layer": )", layers, R"(, "vocab_size": )", vocabulary, R"(, "n_positions": )", tokens,
              R"(, "layer_norm_epsilon": 1e-5, "activation_function": "gelu_new"})");
}

std::string mixtral(int width, int heads, int inner, int experts, int layers, int vocabulary, int tokens) {
  return text(R"({"model_type": "mixtral", "architectures": ["MixtralForCausalLM"], "hidden_size": )", width,
              R"(, "num_attention_heads": )", heads, R"(, "num_key_value_heads": )", heads,
              R"(, "intermediate_size": )", inner, R"(, "num_local_experts": )", experts,
              R"(, "num_experts_per_tok": 2, "num_hidden_layers": )", layers, R"(, "vocab_size": )", vocabulary,
              R"(, "max_position_embeddings": )", tokens,
              R"(, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu", "tie_word_embeddings": false})");
}

} // namespace

std::vector<CalibrationProgram> calibrationPrograms(unsigned cores, bool quick) {
  // Cuts models in two, whatever the cores, since heads and experts divide by no more; data-parallel ranks fill the rest.
  std::string all = std::to_string(cores), half = std::to_string(std::max(1u, cores / 2)),
              pairs = std::to_string(2 * std::max(1u, cores / 2));
  std::string small = gpt2(128, 4, 4, 1024, 128), middle = llama(384, 6, 2, 1024, 4, 4096, 256),
              large = gpt2(512, 8, 2, 8192, 512), wide = llama(768, 6, 6, 2048, 2, 2048, 128),
              experts = mixtral(256, 4, 512, 4, 2, 2048, 128), smallExperts = mixtral(128, 4, 128, 8, 4, 1024, 64);
  if (quick)
    return {{"small, tp x pp x dp", small, {"--tp", "2", "--pp", "2", "--dp", half}, 1024},
            {"small, one rank", small, {"--dp", "1", "--global-batch", "8"}, 1024}};
  return {{"small, all data-parallel", small, {"--dp", all}, 1024},
          {"small, tp x pp x dp", small, {"--tp", "2", "--pp", "2", "--dp", half}, 1024},
          {"small, one rank", small, {"--dp", "1", "--global-batch", "8"}, 1024},
          {"middle, tp x pp", middle, {"--tp", "2", "--pp", "2", "--dp", half}, 4096},
          {"middle, ZeRO-3", middle, {"--dp", all, "--zero", "3"}, 4096},
          {"middle, one rank", middle, {"--dp", "1", "--global-batch", "8"}, 4096},
          {"middle, bf16", middle, {"--dp", half, "--pp", "2", "--precision", "bf16"}, 4096},
          {"middle, one rank, bf16", middle, {"--dp", "1", "--global-batch", "8", "--precision", "bf16"}, 4096},
          {"middle, fp16", middle, {"--dp", all, "--precision", "fp16"}, 4096},
          {"middle, one rank, fp16", middle, {"--dp", "1", "--global-batch", "8", "--precision", "fp16"}, 4096},
          {"middle, cp", middle, {"--cp", "2", "--dp", half}, 4096},
          {"large, tp", large, {"--tp", "2", "--dp", half}, 8192},
          {"large, one rank", large, {"--dp", "1", "--global-batch", "4"}, 8192},
          {"wide, pp", wide, {"--pp", "2", "--dp", half}, 2048},
          {"wide, one rank", wide, {"--dp", "1", "--global-batch", "8"}, 2048},
          {"experts, ep", experts, {"--dp", pairs, "--ep", "2"}, 2048},
          {"experts, one rank", experts, {"--dp", "1", "--global-batch", "8"}, 2048},
          {"small experts, all data-parallel", smallExperts, {"--dp", all, "--micro-batch", "2"}, 1024},
          {"small experts, one rank", smallExperts, {"--dp", "1", "--global-batch", "16", "--micro-batch", "4"}, 1024},
          {"experts, bf16", experts, {"--dp", all, "--precision", "bf16"}, 2048}};
}

} // namespace llmc
