// Builds DeepseekV2ForCausalLM of transformers (DeepSeek-AI, 2024, "DeepSeek-V2"): latent attention; all
// layers but the first are mixtures of experts, which may be chosen by groups, beside some that all
// tokens take.
#include "lib/huggingface/Deepseek.h"

using namespace llmc;
using namespace llmc::hf;

static BuiltModel build(mlir::MLIRContext &context, Config &config, const CompileOptions &options) {
  Decoder d = readDeepseek(config, options,
                           {.vocabulary = 102400, .width = 4096, .inner = 11008, .layers = 32, .heads = 32,
                            .context = 2048},
                           {.experts = 64, .choices = 0, .inner = 1407, .shared = 2, .firstSparse = 0,
                            .factor = 1});
  d.mlpBias = config.flag({"mlp_bias"}, false);
  std::string method = config.text({"topk_method"}, "greedy");
  if (method == "group_limited_greedy") {
    d.mixture.groups = config.positive({"n_group"}, 1);
    d.mixture.keptGroups = config.positive({"topk_group"}, 1);
  } else if (method != "greedy") {
    config.note("\"topk_method\": '" + method + "' is not supported: greedy and group_limited_greedy are");
  }
  if (std::string got = config.text({"scoring_func"}, "softmax"); got != "softmax")
    config.note("\"scoring_func\": '" + got + "' is not supported: softmax is");
  if (config.flag({"norm_topk_prob"}, false))
    config.note("\"norm_topk_prob\" is not supported: weights are not normalised in DeepSeek-V2");
  checkMixture(config, d.mixture, "n_routed_experts", "num_experts_per_tok");
  return buildDecoder(context, config, options, d);
}

Architecture hf::architectures::DeepseekV2() { return {{"deepseek_v2"}, {"DeepseekV2ForCausalLM"}, build}; }
