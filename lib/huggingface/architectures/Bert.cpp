// Builds BertForMaskedLM of transformers (Devlin et al., 2019). Every token has type 0.
#include "lib/huggingface/Encoder.h"

using namespace llmc;
using namespace llmc::hf;

static BuiltModel build(mlir::MLIRContext &context, Config &config,
                        const CompileOptions &options) {
  Encoder e = readBert(config, options, 30522, "bert");
  e.sequence = chooseSequence(config, options, e.positions, true);
  e.headActivation = e.activation;
  e.names.headDense = "cls.predictions.transform.dense";
  e.names.headNorm = "cls.predictions.transform.LayerNorm";
  e.names.head = "cls.predictions.decoder";
  e.names.headBias = "cls.predictions.bias";
  checkEncoder(config, e);
  BuiltModel model = buildEncoder(context, config, options, e);
  // Accept the names in checkpoints that were converted from TensorFlow.
  model.spellings = {{"LayerNorm.weight", "LayerNorm.gamma"}, {"LayerNorm.bias", "LayerNorm.beta"}};
  return model;
}

Architecture hf::architectures::Bert() {
  return {{"bert"}, {"BertForMaskedLM", "BertForPreTraining", "BertModel"}, build};
}
