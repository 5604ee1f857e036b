// Builds Gemma2ForCausalLM of transformers (Gemma Team, 2024): norms before and after attention
// and MLP whose scale is 1 + w, soft caps, a window on every other layer.
#include "lib/huggingface/Decoder.h"

using namespace llmc;
using namespace llmc::hf;

static BuiltModel build(mlir::MLIRContext &context, Config &config,
                        const CompileOptions &options) {
  Decoder d = readGemma(config, options, 256000, 8192);
  d.softcap = config.positiveNumberOrNull({"attn_logit_softcapping"}, 50).value_or(0);
  d.logitSoftcap = config.positiveNumberOrNull({"final_logit_softcapping"}, 30).value_or(0);
  readWindow(config, d, 4096, readLayerTypes(config, d, [](size_t layer) { return layer % 2 == 0; }));
  d.ropes = {readRope(config, ropeFields(d))};
  return buildDecoder(context, config, options, d);
}

Architecture hf::architectures::Gemma2() { return {{"gemma2"}, {"Gemma2ForCausalLM"}, build}; }
