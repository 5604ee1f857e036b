// Builds LlamaForCausalLM of transformers (Touvron et al., 2023; Llama 3, 2024): the decoder of
// lib/huggingface/Decoder.h with its defaults.
#include "lib/huggingface/Decoder.h"

using namespace llmc;
using namespace llmc::hf;

static BuiltModel build(mlir::MLIRContext &context, Config &config,
                        const CompileOptions &options) {
  Decoder d = readDecoder(config, options,
                          {.vocabulary = 32000, .width = 4096, .inner = 11008, .layers = 32,
                           .heads = 32});
  d.qkvBias = d.outBias = config.flag({"attention_bias"}, false);
  d.mlpBias = config.flag({"mlp_bias"}, false);
  d.ropes = {readRope(config, ropeFields(d))};
  return buildDecoder(context, config, options, d);
}

Architecture hf::architectures::Llama() { return {{"llama"}, {"LlamaForCausalLM"}, build}; }
