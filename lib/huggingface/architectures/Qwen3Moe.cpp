// Builds Qwen3MoeForCausalLM of transformers (Yang et al., 2025): Qwen 3 with mixtures of experts in
// place of MLPs, in all layers or some, and a window on all layers or none.
#include "lib/huggingface/Decoder.h"

using namespace llmc;
using namespace llmc::hf;

static void readMixture(Config &config, Decoder &d) {
  Mixture &m = d.mixture;
  m.experts = config.positive({"num_experts", "num_local_experts"}, 128);
  m.choices = config.positive({"num_experts_per_tok"}, 8);
  m.inner = config.positive({"moe_intermediate_size"}, 768);
  m.normalised = config.flag({"norm_topk_prob"}, false);
  m.activation = d.activation;
  checkMixture(config, m, "num_experts", "num_experts_per_tok");
  readSparseLayers(config, d);
}

static BuiltModel build(mlir::MLIRContext &context, Config &config, const CompileOptions &options) {
  Decoder d = readDecoder(config, options,
                          {.vocabulary = 151936, .width = 2048, .inner = 6144, .layers = 24, .heads = 32,
                           .kvHeads = 4, .context = 32768});
  d.qkvBias = d.outBias = config.flag({"attention_bias"}, false);
  d.normedQk = NormedQk::EachHead;
  d.names.qNorm = "q_norm";
  d.names.kNorm = "k_norm";
  std::optional<int64_t> window = config.positiveOrNull({"sliding_window"}, 4096);
  if (config.flag({"use_sliding_window"}, false))
    setWindows(d, window, std::vector<bool>(d.layers.size(), true));
  readMixture(config, d);
  d.ropes = {readRope(config, ropeFields(d))};
  return buildDecoder(context, config, options, d);
}

Architecture hf::architectures::Qwen3Moe() { return {{"qwen3_moe"}, {"Qwen3MoeForCausalLM"}, build}; }
