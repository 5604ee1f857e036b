// Configs of Nemotron: the defaults of transformers, and what a model without weights starts with.
#include "Configs.h"

using namespace llmc;
using namespace llmc::test;
using namespace mlir;

namespace {

const std::string kSmall =
    R"("model_type": "nemotron", "architectures": ["NemotronForCausalLM"], "num_hidden_layers": 1,)"
    R"("hidden_size": 64, "intermediate_size": 32, "num_attention_heads": 4, "vocab_size": 50)";

TEST(Nemotron, Defaults) {
  Configs configs;
  configs.same("defaults", kSmall,
               kSmall + R"(, "num_key_value_heads": 4, "head_dim": 16, "hidden_act": "relu2",)"
                        R"("norm_eps": 1e-5, "partial_rotary_factor": 0.5, "rope_theta": 10000.0,)"
                        R"("attention_bias": false, "mlp_bias": false, "tie_word_embeddings": false,)"
                        R"("initializer_range": 0.0134, "max_position_embeddings": 4096)");
  configs.same("a part of the head", kSmall + R"(, "rope_theta": 500.0, "partial_rotary_factor": 0.25)",
               kSmall + R"(, "rope_parameters": {"rope_type": "default", "rope_theta": 500.0,)"
                        R"("partial_rotary_factor": 0.25})");
  configs.same("a part beside the scaling",
               kSmall + R"(, "rope_scaling": {"type": "linear", "factor": 2.0})",
               kSmall + R"(, "rope_parameters": {"rope_type": "linear", "factor": 2.0,)"
                        R"("partial_rotary_factor": 0.5})");
  for (const char *field :
       {R"("num_key_value_heads": 2)", R"("head_dim": 8)", R"("hidden_act": "relu")", R"("norm_eps": 1e-6)",
        R"("partial_rotary_factor": 1.0)", R"("attention_bias": true)", R"("mlp_bias": true)",
        R"("tie_word_embeddings": true)", R"("initializer_range": 0.02)"})
    configs.differ("a field", kSmall, kSmall + ", " + field);
}

// Published configs leave most fields to transformers.
TEST(Nemotron, Published) {
  Configs configs;
  std::string message;
  auto module = configs.read(
      R"("hidden_size": 6144, "num_hidden_layers": 32, "num_attention_heads": 48, "num_key_value_heads": 8,)"
      R"("vocab_size": 256000, "max_position_embeddings": 4096, "head_dim": 128, "intermediate_size": 24576,)"
      R"("architectures": ["NemotronForCausalLM"], "model_type": "nemotron", "hidden_act": "relu2")",
      message);
  ASSERT_TRUE(module && succeeded(verify(*module))) << message;
  EXPECT_TRUE(parametersOf(*module) == 15'628'775'424) << parametersOf(*module);
  int64_t norms = 0, squares = 0;
  module->walk([&](graph::LayerNormOp) { ++norms; });
  module->walk([&](graph::ReluOp relu) {
    auto square = dyn_cast<graph::MulOp>(*relu->user_begin());
    squares += square && square.getLhs() == square.getRhs();
  });
  EXPECT_TRUE(norms == 65 && squares == 32) << norms << " norms, " << squares << " squares";
}

// transformers starts the stored scales of these norms at 1, those of Gemma at 0.
TEST(Nemotron, Starts) {
  Configs configs;
  std::string message;
  for (auto [fields, kind] : {std::pair(kSmall, graph::InitKind::ones),
                              std::pair(std::string(R"("model_type": "gemma2", "num_hidden_layers": 1)"),
                                        graph::InitKind::zeros)}) {
    auto module = configs.read(fields, message, 16);
    ASSERT_TRUE(bool(module)) << message;
    auto scale = module->lookupSymbol<graph::SourceOp>("model.norm.weight");
    EXPECT_TRUE(scale && scale.getInit() == kind) << fields;
  }
}

TEST(Nemotron, Refusals) {
  Configs configs;
  configs.refuses(kSmall + R"(, "norm_eps": 0)", {"norm_eps", "positive number", "0"});
  configs.refuses(kSmall + R"(, "partial_rotary_factor": 1.5)", {"1.5", "16"});
  configs.refuses(kSmall + R"(, "hidden_act": "relu3")", {"hidden_act", "relu3", "relu2"});
  configs.refuses(R"("model_type": "nemotron", "architectures": ["NemotronForTokenClassification"])",
                  {"NemotronForTokenClassification", "NemotronForCausalLM"});
}

} // namespace
