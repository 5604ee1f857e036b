// Builds MistralForCausalLM of transformers (Jiang et al., 2023): Llama with a sliding window
// on every layer.
#include "lib/huggingface/Decoder.h"

using namespace llmc;
using namespace llmc::hf;

static BuiltModel build(mlir::MLIRContext &context, Config &config,
                        const CompileOptions &options) {
  Decoder d = readDecoder(config, options,
                          {.vocabulary = 32000, .width = 4096, .inner = 14336, .layers = 32,
                           .heads = 32, .kvHeads = 8, .context = 4096 * 32});
  std::optional<int64_t> window = config.positiveOrNull({"sliding_window"}, 4096);
  setWindows(d, window, std::vector<bool>(d.layers.size(), true));
  d.ropes = {readRope(config, ropeFields(d))};
  return buildDecoder(context, config, options, d);
}

Architecture hf::architectures::Mistral() {
  return {{"mistral"}, {"MistralForCausalLM"}, build};
}
