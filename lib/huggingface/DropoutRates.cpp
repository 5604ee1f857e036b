#include "lib/huggingface/DropoutRates.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace llmc;
using namespace llmc::hf;

namespace {

// Names the fields that hold the rates of one family of configs; null where a model drops nothing.
// `standard` is what transformers takes for a field that is missing.
struct Fields {
  const char *embedding, *attention, *attentionOutput, *mlpOutput;
  double standard;
};

constexpr Fields kGpt2{"embd_pdrop", "attn_pdrop", "resid_pdrop", "resid_pdrop", 0.1};
constexpr Fields kBert{"hidden_dropout_prob", "attention_probs_dropout_prob", "hidden_dropout_prob",
                       "hidden_dropout_prob", 0.1};
// Drops nothing between its attention and the residual addition.
constexpr Fields kDistilBert{"dropout", "attention_dropout", nullptr, "dropout", 0.1};
constexpr Fields kNeox{"hidden_dropout", "attention_dropout", "hidden_dropout", "hidden_dropout", 0};
constexpr Fields kPhi{"embd_pdrop", "attention_dropout", "resid_pdrop", "resid_pdrop", 0};
constexpr Fields kLlama{nullptr, "attention_dropout", nullptr, nullptr, 0};

} // namespace

static const Fields &fieldsOf(llvm::StringRef modelType) {
  return *llvm::StringSwitch<const Fields *>(modelType)
              .Case("gpt2", &kGpt2)
              .Cases({"bert", "roberta", "xlm-roberta", "camembert"}, &kBert)
              .Case("distilbert", &kDistilBert)
              .Case("gpt_neox", &kNeox)
              .Cases({"phi", "phi3"}, &kPhi)
              .Default(&kLlama);
}

DictionaryAttr hf::dropoutRates(MLIRContext &context, Config &config, llvm::StringRef modelType) {
  const Fields &fields = fieldsOf(modelType);
  Builder b(&context);
  auto rate = [&](const char *place, const char *field) {
    return b.getNamedAttr(place, b.getF64FloatAttr(field ? config.rate(field, fields.standard) : 0));
  };
  return b.getDictionaryAttr({rate("embedding", fields.embedding), rate("attention", fields.attention),
                              rate("attention_output", fields.attentionOutput),
                              rate("mlp_output", fields.mlpOutput)});
}

std::vector<std::string> hf::statedDropout(const Config &config) {
  return config.positives({"attention_dropout", "attention_probs_dropout_prob", "attn_pdrop", "dropout",
                           "embd_pdrop", "hidden_dropout", "hidden_dropout_prob", "resid_pdrop"});
}
