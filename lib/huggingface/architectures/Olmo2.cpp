// Builds Olmo2ForCausalLM of transformers (OLMo Team, 2024): Llama with norms only after
// attention and MLP, and one norm over all heads of query and of key.
#include "lib/huggingface/Decoder.h"

using namespace llmc;
using namespace llmc::hf;

static BuiltModel build(mlir::MLIRContext &context, Config &config,
                        const CompileOptions &options) {
  Decoder d = readDecoder(config, options,
                          {.vocabulary = 50304, .width = 4096, .inner = 11008, .layers = 32,
                           .heads = 32, .epsilon = 1e-5});
  d.qkvBias = d.outBias = config.flag({"attention_bias"}, false);
  d.normedQk = NormedQk::AllHeads;
  d.names.qNorm = "q_norm";
  d.names.kNorm = "k_norm";
  d.names.beforeAttention = "";
  d.names.afterAttention = "post_attention_layernorm";
  d.names.beforeMlp = "";
  d.names.afterMlp = "post_feedforward_layernorm";
  d.ropes = {readRope(config, ropeFields(d))};
  return buildDecoder(context, config, options, d);
}

Architecture hf::architectures::Olmo2() { return {{"olmo2"}, {"Olmo2ForCausalLM"}, build}; }
