// Builds Gemma3ForCausalLM of transformers (Gemma Team, 2025), and the language model inside
// Gemma3ForConditionalGeneration: Gemma 2 with norms of queries and keys in place of soft caps,
// and five layers with a window and a small theta for each layer without a window.
#include "lib/huggingface/Decoder.h"

using namespace llmc;
using namespace llmc::hf;

// Reads two ropes: that of layers without a window, and that of layers with one. In older
// configs only the first has an object of its own.
static std::vector<Rope> readRopes(Config &config, const Decoder &d) {
  RopeFields global = ropeFields(d), local = global;
  global.theta = 1000000;
  local.thetaNames = {"rope_local_base_freq"};
  std::optional<Config> scaling = config.object({"rope_scaling"}), fields, slides;
  if (std::optional<Config> both = config.object({"rope_parameters"})) {
    fields = both->object({"full_attention"});
    slides = both->object({"sliding_attention"});
  }
  return {readRope(config, scaling ? scaling : fields, global), readRope(config, slides, local)};
}

static BuiltModel build(mlir::MLIRContext &context, Config &whole,
                        const CompileOptions &options) {
  std::optional<Config> inside = whole.object({"text_config"});
  Config &config = inside ? *inside : whole;
  Decoder d = readGemma(config, options, 262208, 131072);
  if (inside)
    d.tied &= whole.flag({"tie_word_embeddings"}, true);
  d.normedQk = NormedQk::EachHead;
  d.names.qNorm = "q_norm";
  d.names.kNorm = "k_norm";
  d.logitSoftcap = config.positiveNumberOrNull({"final_logit_softcapping"}, {}).value_or(0);

  size_t pattern = config.positiveOrNull({"sliding_window_pattern", "_sliding_window_pattern"}, 6).value_or(6);
  std::vector<bool> slides =
      readLayerTypes(config, d, [&](size_t layer) { return (layer + 1) % pattern != 0; });
  readWindow(config, d, 4096, slides);
  d.ropes = readRopes(config, d);
  for (size_t i = 0; i < slides.size(); ++i)
    d.layers[i].rope = slides[i];
  if (inside) {
    d.names.embedding = "model.language_model.embed_tokens";
    d.names.layers = "model.language_model.layers";
    d.names.finalNorm = "model.language_model.norm";
  }
  BuiltModel model = buildDecoder(context, config, options, d);
  if (inside) // as published, before transformers 5
    model.spellings = {{"model.language_model.", "language_model.model."},
                       {"lm_head.", "language_model.lm_head."}};
  return model;
}

Architecture hf::architectures::Gemma3() {
  return {{"gemma3_text", "gemma3"},
          {"Gemma3ForCausalLM", "Gemma3ForConditionalGeneration"},
          build};
}
