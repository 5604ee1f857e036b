// RobertaForMaskedLM of transformers (Liu et al., 2019): BERT whose positions count the tokens
// that are no padding, behind the padding's id.
#include "lib/huggingface/Encoder.h"

using namespace llmc;
using namespace llmc::hf;

static BuiltModel build(mlir::MLIRContext &context, Config &config,
                        const CompileOptions &options) {
  Encoder e;
  e.vocabulary = config.positive({"vocab_size"}, 50265);
  e.width = config.positive({"hidden_size"}, 768);
  e.layers = countLayers(config, {"num_hidden_layers"}, 12);
  e.heads = config.positive({"num_attention_heads"}, 12);
  e.inner = config.positive({"intermediate_size"}, 3072);
  e.types = config.positive({"type_vocab_size"}, 2);
  e.positions = config.positive({"max_position_embeddings"}, 512);
  e.padding = config.index({"pad_token_id"}, 1);
  int64_t longest = e.positions - *e.padding - 1;
  if (longest < 1)
    config.note("\"max_position_embeddings\" " + std::to_string(e.positions) +
                " leaves no rows behind \"pad_token_id\" " + std::to_string(*e.padding));
  else
    e.sequence = chooseSequence(config, options, longest, true);
  e.deviation = config.positiveNumber({"initializer_range"}, 0.02);
  e.norm.epsilon = config.positiveNumber({"layer_norm_eps"}, 1e-12);
  e.activation = readActivation(config, {"hidden_act"}, "gelu");
  e.tied = config.flag({"tie_word_embeddings"}, true) && options.tie;
  e.names = {.words = "roberta.embeddings.word_embeddings",
             .positions = "roberta.embeddings.position_embeddings",
             .types = "roberta.embeddings.token_type_embeddings",
             .embeddingNorm = "roberta.embeddings.LayerNorm",
             .layers = "roberta.encoder.layer",
             .q = "attention.self.query",
             .k = "attention.self.key",
             .v = "attention.self.value",
             .out = "attention.output.dense",
             .attentionNorm = "attention.output.LayerNorm",
             .up = "intermediate.dense",
             .down = "output.dense",
             .mlpNorm = "output.LayerNorm",
             .headDense = "lm_head.dense",
             .headNorm = "lm_head.layer_norm",
             .head = "lm_head.decoder",
             .headBias = "lm_head.bias"};
  checkEncoder(config, e);
  return buildEncoder(context, config, options, e);
}

Architecture hf::architectures::Roberta() {
  return {{"roberta"}, {"RobertaForMaskedLM", "RobertaModel"}, build};
}
