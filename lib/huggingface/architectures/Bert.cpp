// BertForMaskedLM of transformers (Devlin et al., 2019). Every token is of the first text.
#include "lib/huggingface/Encoder.h"

using namespace llmc;
using namespace llmc::hf;

static BuiltModel build(mlir::MLIRContext &context, Config &config,
                        const CompileOptions &options) {
  Encoder e;
  e.vocabulary = config.positive({"vocab_size"}, 30522);
  e.width = config.positive({"hidden_size"}, 768);
  e.layers = countLayers(config, {"num_hidden_layers"}, 12);
  e.heads = config.positive({"num_attention_heads"}, 12);
  e.inner = config.positive({"intermediate_size"}, 3072);
  e.types = config.positive({"type_vocab_size"}, 2);
  e.positions = config.positive({"max_position_embeddings"}, 512);
  e.sequence = chooseSequence(config, options, e.positions, true);
  e.deviation = config.positiveNumber({"initializer_range"}, 0.02);
  e.norm.epsilon = config.positiveNumber({"layer_norm_eps"}, 1e-12);
  e.activation = e.headActivation = readActivation(config, {"hidden_act"}, "gelu");
  e.tied = config.flag({"tie_word_embeddings"}, true) && options.tie;
  e.names = {.words = "bert.embeddings.word_embeddings",
             .positions = "bert.embeddings.position_embeddings",
             .types = "bert.embeddings.token_type_embeddings",
             .embeddingNorm = "bert.embeddings.LayerNorm",
             .layers = "bert.encoder.layer",
             .q = "attention.self.query",
             .k = "attention.self.key",
             .v = "attention.self.value",
             .out = "attention.output.dense",
             .attentionNorm = "attention.output.LayerNorm",
             .up = "intermediate.dense",
             .down = "output.dense",
             .mlpNorm = "output.LayerNorm",
             .headDense = "cls.predictions.transform.dense",
             .headNorm = "cls.predictions.transform.LayerNorm",
             .head = "cls.predictions.decoder",
             .headBias = "cls.predictions.bias"};
  checkEncoder(config, e);
  BuiltModel model = buildEncoder(context, config, options, e);
  // Checkpoints that were converted from TensorFlow.
  model.spellings = {{"LayerNorm.weight", "LayerNorm.gamma"}, {"LayerNorm.bias", "LayerNorm.beta"}};
  return model;
}

Architecture hf::architectures::Bert() {
  return {{"bert"}, {"BertForMaskedLM", "BertForPreTraining", "BertModel"}, build};
}
