// Builds GPTNeoXForCausalLM of transformers (Black et al., 2022), Pythia: attention and MLP read
// one residual, layer norms, one matrix that holds query, key and value of each head in turn.
#include "lib/huggingface/Decoder.h"

using namespace llmc;
using namespace llmc::hf;

static BuiltModel build(mlir::MLIRContext &context, Config &config,
                        const CompileOptions &options) {
  Decoder d = readDecoder(config, options,
                          {.vocabulary = 50432, .width = 6144, .inner = 24576, .layers = 44,
                           .heads = 64, .activation = "gelu"});
  if (d.kvHeads != d.heads || d.headDim * d.heads != d.width)
    config.note("\"num_key_value_heads\" and \"head_dim\" are not supported: each head has its own "
                "key, and heads share the width");
  d.norm = {Norm::Kind::Layer, config.positiveNumber({"layer_norm_eps"}, 1e-5)};
  d.parallel = config.flag({"use_parallel_residual"}, true);
  d.fusedQkv = FusedQkv::InEachHead;
  d.qkvBias = d.outBias = config.flag({"attention_bias"}, true);
  d.gated = false;
  d.mlpBias = true;

  d.names.embedding = "gpt_neox.embed_in";
  d.names.layers = "gpt_neox.layers";
  d.names.finalNorm = "gpt_neox.final_layer_norm";
  d.names.attention = "attention";
  d.names.q = "query_key_value";
  d.names.out = "dense";
  d.names.up = "dense_h_to_4h";
  d.names.down = "dense_4h_to_h";

  RopeFields rope = ropeFields(d);
  rope.thetaNames = {"rotary_emb_base", "rope_theta"};
  rope.partNames = {"rotary_pct", "partial_rotary_factor"};
  rope.part = 0.25;
  d.ropes = {readRope(config, rope)};
  BuiltModel model = buildDecoder(context, config, options, d);
  model.spellings = {{"lm_head.", "embed_out."}}; // before transformers 5
  return model;
}

Architecture hf::architectures::GptNeox() {
  return {{"gpt_neox"}, {"GPTNeoXForCausalLM"}, build};
}
