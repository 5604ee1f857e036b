// Builds NemotronForCausalLM of transformers (Parmar et al., 2024), Nemotron-4 and Minitron: layer
// norms whose scale is 1 + the stored w, by default half of each head rotated, an MLP without a gate
// whose activation is the square of ReLU.
#include "lib/huggingface/Decoder.h"

using namespace llmc;
using namespace llmc::hf;

static BuiltModel build(mlir::MLIRContext &context, Config &config,
                        const CompileOptions &options) {
  Decoder d = readDecoder(config, options,
                          {.vocabulary = 256000, .width = 6144, .inner = 24576, .layers = 32,
                           .heads = 48, .context = 4096, .deviation = 0.0134,
                           .activation = "relu2"});
  // Starts w at 1 as transformers does, although the scale is 2 then.
  d.norm = {Norm::Kind::Layer, config.positiveNumber({"norm_eps"}, 1e-5), true, Init::ones()};
  d.qkvBias = d.outBias = config.flag({"attention_bias"}, false);
  d.gated = false;
  d.mlpBias = config.flag({"mlp_bias"}, false);

  RopeFields rope = ropeFields(d);
  rope.partNames = {"partial_rotary_factor"};
  rope.part = 0.5;
  d.ropes = {readRope(config, rope)};
  return buildDecoder(context, config, options, d);
}

Architecture hf::architectures::Nemotron() {
  return {{"nemotron"}, {"NemotronForCausalLM"}, build};
}
