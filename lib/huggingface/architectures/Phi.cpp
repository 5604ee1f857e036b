// Builds PhiForCausalLM of transformers (Phi-1, 1.5 and 2; Gunasekar et al., 2023): one layer
// norm feeds attention and MLP, whose results are added to the residual together; by default
// half of each head is rotated.
#include "lib/huggingface/Decoder.h"

using namespace llmc;
using namespace llmc::hf;

static BuiltModel build(mlir::MLIRContext &context, Config &config,
                        const CompileOptions &options) {
  Decoder d = readDecoder(config, options,
                          {.vocabulary = 51200, .width = 2048, .inner = 8192, .layers = 24,
                           .heads = 32, .activation = "gelu_new"});
  d.norm = {Norm::Kind::Layer, config.positiveNumber({"layer_norm_eps"}, 1e-5)};
  d.parallel = true;
  d.gated = false;
  d.qkvBias = d.outBias = d.mlpBias = d.headBias = true;
  if (config.flag({"qk_layernorm"}, false))
    d.normedQk = NormedQk::EachHead;

  d.names.finalNorm = "model.final_layernorm";
  d.names.beforeMlp = "";
  d.names.out = "dense";
  d.names.qNorm = "q_layernorm";
  d.names.kNorm = "k_layernorm";
  d.names.up = "fc1";
  d.names.down = "fc2";

  RopeFields rope = ropeFields(d);
  rope.partNames = {"partial_rotary_factor"};
  rope.part = 0.5;
  d.ropes = {readRope(config, rope)};
  return buildDecoder(context, config, options, d);
}

Architecture hf::architectures::Phi() { return {{"phi"}, {"PhiForCausalLM"}, build}; }
