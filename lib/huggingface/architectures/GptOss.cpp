// Builds GptOssForCausalLM of transformers (OpenAI, 2025, "gpt-oss-120b & gpt-oss-20b Model Card"): a
// mixture of experts with biases in each layer, a window on every other layer, and for each head a sink
// that takes its share of attention.
#include "lib/huggingface/Decoder.h"

using namespace llmc;
using namespace llmc::hf;

static void readMixture(Config &config, Decoder &d) {
  Mixture &m = d.mixture;
  m.experts = config.positive({"num_local_experts", "num_experts"}, 128);
  m.choices = config.positive({"num_experts_per_tok", "experts_per_token"}, 4);
  m.inner = d.inner;
  m.weights = Mixture::Weights::SoftmaxOfChosen;
  m.routerBias = true;
  m.stored = Mixture::Stored::Stacked;
  m.limit = config.positiveNumber({"swiglu_limit"}, 7);
  m.alpha = config.positiveNumber({"swiglu_alpha"}, 1.702);
  m.names.router = "router";
  m.names.gate = m.names.up = "gate_up_proj";
  checkMixture(config, m, "num_local_experts", "num_experts_per_tok");
  for (DecoderLayer &layer : d.layers)
    layer.sparse = true;
}

// Reads the rope, which extends a context of 4096 to 32 times that if the config does not say otherwise.
static Rope readOwnRope(Config &config, const Decoder &d) {
  static const support::Json standard = {
      {"rope_type", "yarn"}, {"factor", 32.0},     {"beta_fast", 32.0},
      {"beta_slow", 1.0},    {"truncate", false}, {"original_max_position_embeddings", 4096}};
  RopeFields fields = ropeFields(d);
  fields.theta = 150000;
  std::optional<Config> parameters = config.object({"rope_scaling", "rope_parameters"});
  return readRope(config, parameters ? parameters : std::optional(Config(standard)), fields);
}

static BuiltModel build(mlir::MLIRContext &context, Config &config, const CompileOptions &options) {
  Decoder d = readDecoder(config, options,
                          {.vocabulary = 201088, .width = 2880, .inner = 2880, .layers = 36, .heads = 64,
                           .kvHeads = 8, .headDim = 64, .context = 131072, .epsilon = 1e-5});
  d.qkvBias = d.outBias = config.flag({"attention_bias"}, true);
  d.names.sinks = "sinks";
  readWindow(config, d, 128, readLayerTypes(config, d, [](size_t layer) { return layer % 2 == 0; }));
  readMixture(config, d);
  d.ropes = {readOwnRope(config, d)};
  return buildDecoder(context, config, options, d);
}

Architecture hf::architectures::GptOss() { return {{"gpt_oss"}, {"GptOssForCausalLM"}, build}; }
