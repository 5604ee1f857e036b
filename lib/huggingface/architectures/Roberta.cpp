// Builds RobertaForMaskedLM of transformers (Liu et al., 2019): BERT whose positions count only
// tokens that are not padding, from the padding's id + 1 on.
#include "lib/huggingface/Encoder.h"

using namespace llmc;
using namespace llmc::hf;

static BuiltModel build(mlir::MLIRContext &context, Config &config,
                        const CompileOptions &options) {
  Encoder e = readBert(config, options, 50265, "roberta");
  e.padding = config.index({"pad_token_id"}, 1);
  int64_t longest = e.positions - *e.padding - 1;
  if (longest < 1)
    config.note("\"max_position_embeddings\" " + std::to_string(e.positions) +
                " leaves no rows behind \"pad_token_id\" " + std::to_string(*e.padding));
  else
    e.sequence = chooseSequence(config, options, longest, true);
  e.names.headDense = "lm_head.dense";
  e.names.headNorm = "lm_head.layer_norm";
  e.names.head = "lm_head.decoder";
  e.names.headBias = "lm_head.bias";
  checkEncoder(config, e);
  return buildEncoder(context, config, options, e);
}

Architecture hf::architectures::Roberta() {
  return {{"roberta"}, {"RobertaForMaskedLM", "RobertaModel"}, build};
}
