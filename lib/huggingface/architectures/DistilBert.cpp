// Builds DistilBertForMaskedLM of transformers (Sanh et al., 2019): BERT without token types.
#include "lib/huggingface/Encoder.h"

using namespace llmc;
using namespace llmc::hf;

static BuiltModel build(mlir::MLIRContext &context, Config &config,
                        const CompileOptions &options) {
  Encoder e;
  e.vocabulary = config.positive({"vocab_size"}, 30522);
  e.width = config.positive({"dim", "hidden_size"}, 768);
  e.layers = countLayers(config, {"n_layers", "num_hidden_layers"}, 6);
  e.heads = config.positive({"n_heads", "num_attention_heads"}, 12);
  e.inner = config.positive({"hidden_dim"}, 4 * 768);
  e.positions = config.positive({"max_position_embeddings"}, 512);
  e.sequence = chooseSequence(config, options, e.positions, true);
  e.deviation = config.positiveNumber({"initializer_range"}, 0.02);
  e.norm.epsilon = 1e-12;
  e.activation = e.headActivation = readActivation(config, {"activation"}, "gelu");
  e.tied = config.flag({"tie_word_embeddings"}, true) && options.tie != Tie::Off;
  e.names = {.words = "distilbert.embeddings.word_embeddings",
             .positions = "distilbert.embeddings.position_embeddings",
             .types = "",
             .embeddingNorm = "distilbert.embeddings.LayerNorm",
             .layers = "distilbert.transformer.layer",
             .q = "attention.q_lin",
             .k = "attention.k_lin",
             .v = "attention.v_lin",
             .out = "attention.out_lin",
             .attentionNorm = "sa_layer_norm",
             .up = "ffn.lin1",
             .down = "ffn.lin2",
             .mlpNorm = "output_layer_norm",
             .headDense = "vocab_transform",
             .headNorm = "vocab_layer_norm",
             .head = "vocab_projector",
             .headBias = "vocab_projector.bias"};
  checkEncoder(config, e);
  return buildEncoder(context, config, options, e);
}

Architecture hf::architectures::DistilBert() {
  return {{"distilbert"}, {"DistilBertForMaskedLM", "DistilBertModel"}, build};
}
