// Builds MixtralForCausalLM of transformers (Jiang et al., 2024): Mistral with a mixture of experts in
// each layer, whose weights sum to 1.
#include "lib/huggingface/Decoder.h"

using namespace llmc;
using namespace llmc::hf;

static void readMixture(Config &config, Decoder &d) {
  Mixture &m = d.mixture;
  m.experts = config.positive({"num_local_experts", "num_experts"}, 8);
  m.choices = config.positive({"num_experts_per_tok"}, 2);
  m.inner = d.inner;
  m.normalised = true;
  m.activation = d.activation;
  m.names = {"block_sparse_moe", "gate", "experts", "w1", "w3", "w2"};
  checkMixture(config, m, "num_local_experts", "num_experts_per_tok");
  for (DecoderLayer &layer : d.layers)
    layer.sparse = true;
  if (!config.positives({"router_jitter_noise"}).empty())
    config.note("\"router_jitter_noise\" is not supported: tokens reach the router as they are");
}

static BuiltModel build(mlir::MLIRContext &context, Config &config, const CompileOptions &options) {
  Decoder d = readDecoder(config, options,
                          {.vocabulary = 32000, .width = 4096, .inner = 14336, .layers = 32, .heads = 32,
                           .kvHeads = 8, .context = 131072, .epsilon = 1e-5});
  setWindows(d, config.positiveOrNull({"sliding_window"}, std::nullopt),
             std::vector<bool>(d.layers.size(), true));
  readMixture(config, d);
  RopeFields rope = ropeFields(d);
  rope.theta = 1000000;
  d.ropes = {readRope(config, rope)};
  return buildDecoder(context, config, options, d);
}

Architecture hf::architectures::Mixtral() { return {{"mixtral"}, {"MixtralForCausalLM"}, build}; }
