// Builds DeepseekV3ForCausalLM of transformers (DeepSeek-AI, 2024, "DeepSeek-V3"): latent attention; all
// layers but the first are mixtures of experts that are chosen by groups and by scores with a bias, beside
// one that all tokens take. The layers that predict further tokens are not part of that class.
#include "lib/huggingface/Deepseek.h"

using namespace llmc;
using namespace llmc::hf;

static BuiltModel build(mlir::MLIRContext &context, Config &config, const CompileOptions &options) {
  Decoder d = readDeepseek(config, options,
                           {.vocabulary = 129280, .width = 7168, .inner = 18432, .layers = 61, .heads = 128,
                            .context = 4096},
                           {.experts = 256, .choices = 8, .inner = 2048, .shared = 1, .firstSparse = 3,
                            .factor = 2.5});
  d.latent->interleaved = config.flag({"rope_interleave"}, true);
  Mixture &m = d.mixture;
  m.weights = Mixture::Weights::Sigmoid;
  m.normalised = config.flag({"norm_topk_prob"}, true);
  m.least = 1e-20;
  m.correction = "e_score_correction_bias";
  m.groups = config.positive({"n_group"}, 8);
  m.keptGroups = config.positive({"topk_group"}, 4);
  m.groupTerms = 2;
  for (auto [field, expected] : {std::pair("scoring_func", "sigmoid"), {"topk_method", "noaux_tc"}})
    if (std::string got = config.text({field}, expected); got != expected)
      config.note(config.quoted(field) + ": '" + got + "' is not supported: " + expected + " is");
  checkMixture(config, m, "n_routed_experts", "num_experts_per_tok");
  return buildDecoder(context, config, options, d);
}

Architecture hf::architectures::DeepseekV3() { return {{"deepseek_v3"}, {"DeepseekV3ForCausalLM"}, build}; }
