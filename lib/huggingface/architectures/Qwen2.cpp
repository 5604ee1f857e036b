// Builds Qwen2ForCausalLM of transformers (Yang et al., 2024): Llama with a bias on query, key
// and value, and windows on the last layers if the config asks for them.
#include "lib/huggingface/Decoder.h"

using namespace llmc;
using namespace llmc::hf;

static BuiltModel build(mlir::MLIRContext &context, Config &config,
                        const CompileOptions &options) {
  Decoder d = readDecoder(config, options,
                          {.vocabulary = 151936, .width = 4096, .inner = 22016, .layers = 32,
                           .heads = 32, .kvHeads = 32, .context = 32768});
  d.qkvBias = true;
  readQwenWindows(config, d);
  d.ropes = {readRope(config, ropeFields(d))};
  return buildDecoder(context, config, options, d);
}

Architecture hf::architectures::Qwen2() { return {{"qwen2"}, {"Qwen2ForCausalLM"}, build}; }
