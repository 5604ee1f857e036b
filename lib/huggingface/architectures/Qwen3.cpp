// Builds Qwen3ForCausalLM of transformers (Yang et al., 2025): Llama with a norm of query and
// key over each head, and heads of 128 elements by default, whatever the width.
#include "lib/huggingface/Decoder.h"

using namespace llmc;
using namespace llmc::hf;

static BuiltModel build(mlir::MLIRContext &context, Config &config,
                        const CompileOptions &options) {
  Decoder d = readDecoder(config, options,
                          {.vocabulary = 151936, .width = 4096, .inner = 22016, .layers = 32,
                           .heads = 32, .kvHeads = 32, .headDim = 128, .context = 32768});
  d.qkvBias = d.outBias = config.flag({"attention_bias"}, false);
  d.normedQk = NormedQk::EachHead;
  d.names.qNorm = "q_norm";
  d.names.kNorm = "k_norm";
  readQwenWindows(config, d);
  d.ropes = {readRope(config, ropeFields(d))};
  return buildDecoder(context, config, options, d);
}

Architecture hf::architectures::Qwen3() { return {{"qwen3"}, {"Qwen3ForCausalLM"}, build}; }
