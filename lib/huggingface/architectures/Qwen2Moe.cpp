// Builds Qwen2MoeForCausalLM of transformers (Yang et al., 2024): Qwen 2 with mixtures of experts in
// place of MLPs, in all layers or some, beside an expert that all tokens take, scaled by a sigmoid.
#include "lib/huggingface/Decoder.h"

using namespace llmc;
using namespace llmc::hf;

static void readMixture(Config &config, Decoder &d) {
  Mixture &m = d.mixture;
  m.experts = config.positive({"num_experts"}, 60);
  m.choices = config.positive({"num_experts_per_tok"}, 4);
  m.inner = config.positive({"moe_intermediate_size"}, 1408);
  m.normalised = config.flag({"norm_topk_prob"}, false);
  m.activation = d.activation;
  checkMixture(config, m, "num_experts", "num_experts_per_tok");
  readSparseLayers(config, d);
  d.sharedInner = config.positive({"shared_expert_intermediate_size"}, 5632);
  d.shared = "shared_expert";
  d.sharedGate = "shared_expert_gate";
}

static BuiltModel build(mlir::MLIRContext &context, Config &config, const CompileOptions &options) {
  Decoder d = readDecoder(config, options,
                          {.vocabulary = 151936, .width = 2048, .inner = 5632, .layers = 24, .heads = 16,
                           .kvHeads = 16, .context = 32768});
  d.qkvBias = config.flag({"qkv_bias"}, true);
  int64_t window = config.index({"sliding_window"}, 4096); // transformers writes 0 where none is used
  bool slides = config.flag({"use_sliding_window"}, false) && window > 0;
  size_t most = config.index({"max_window_layers"}, 28);
  setWindows(d, slides ? std::optional(window) : std::nullopt, readLayerTypes(config, d, [&](size_t layer) {
               return slides && layer % 2 == 0 && layer < most;
             }));
  readMixture(config, d);
  d.ropes = {readRope(config, ropeFields(d))};
  return buildDecoder(context, config, options, d);
}

Architecture hf::architectures::Qwen2Moe() { return {{"qwen2_moe"}, {"Qwen2MoeForCausalLM"}, build}; }
