// Gemma2ForCausalLM of transformers (Gemma Team, 2024): norms before and after each half of
// a layer with scales stored as 1 + w, soft caps, a window on every other layer.
#include "lib/huggingface/Decoder.h"

#include <cmath>

using namespace llmc;
using namespace llmc::hf;

static BuiltModel build(mlir::MLIRContext &context, Config &config,
                        const CompileOptions &options) {
  Decoder d = readDecoder(config, options,
                          {.vocabulary = 256000, .width = 2304, .inner = 9216, .layers = 26,
                           .heads = 8, .kvHeads = 4, .headDim = 256, .context = 8192,
                           .tied = true, .activation = "gelu_pytorch_tanh",
                           .activationField = "hidden_activation"});
  if (config.flag({"use_bidirectional_attention"}, false))
    config.note("\"use_bidirectional_attention\" is not supported: only decoders are");
  d.norm.kind = Norm::Kind::RmsOnePlus;
  d.names.afterAttention = "post_attention_layernorm";
  d.names.beforeMlp = "pre_feedforward_layernorm";
  d.names.afterMlp = "post_feedforward_layernorm";
  d.embeddingScale = std::sqrt(double(d.width));
  d.scale = 1 / std::sqrt(config.positiveNumber({"query_pre_attn_scalar"}, 256));
  d.qkvBias = d.outBias = config.flag({"attention_bias"}, false);
  d.softcap = config.positiveNumberOrNull({"attn_logit_softcapping"}, 50).value_or(0);
  d.logitSoftcap = config.positiveNumberOrNull({"final_logit_softcapping"}, 30).value_or(0);
  std::optional<int64_t> window = config.positiveOrNull({"sliding_window"}, 4096);
  setWindows(d, window, readLayerTypes(config, d, [](size_t layer) { return layer % 2 == 0; }));
  d.ropes = {readRope(config, ropeFields(d))};
  return buildDecoder(context, config, options, d);
}

Architecture hf::architectures::Gemma2() { return {{"gemma2"}, {"Gemma2ForCausalLM"}, build}; }
