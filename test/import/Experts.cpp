// Configs with mixtures of experts: published sizes, which layers are sparse, where states lie in the
// checkpoint, refusals.
#include "Configs.h"

#include "dialects/graph/GraphAttrs.h"

#include <algorithm>
#include <chrono>
#include <cmath>

using namespace llmc;
using namespace llmc::test;
using namespace mlir;

namespace {

int64_t activeParametersOf(ModuleOp module) {
  auto active = module->getAttrOfType<DictionaryAttr>(graph::kModel).getAs<IntegerAttr>("active_parameters");
  return active ? active.getInt() : 0;
}

// The published numbers of parameters, and of those that one token uses.
TEST(Experts, Sizes) {
  Configs configs;
  for (auto [title, fields, parameters, active] :
       std::initializer_list<std::tuple<const char *, std::string, int64_t, int64_t>>{
           {"Mixtral 8x7B", R"("model_type": "mixtral")", 46'702'792'704, 12'879'925'248},
           {"Qwen1.5-MoE-A2.7B", R"("model_type": "qwen2_moe")", 14'315'784'192, 2'689'173'504},
           {"Qwen3-30B-A3B", R"("model_type": "qwen3_moe", "head_dim": 128, "num_hidden_layers": 48)",
            30'532'122'624, 3'353'032'704},
           {"Qwen3-235B-A22B", R"("model_type": "qwen3_moe", "head_dim": 128, "num_hidden_layers": 94,
              "hidden_size": 4096, "moe_intermediate_size": 1536, "num_attention_heads": 64)",
            235'093'634'560, 22'190'763'520},
           {"DeepSeek-V2-Lite", R"("model_type": "deepseek_v2", "hidden_size": 2048, "num_hidden_layers": 27,
              "num_attention_heads": 16, "q_lora_rank": null, "first_k_dense_replace": 1,
              "moe_intermediate_size": 1408, "num_experts_per_tok": 6, "intermediate_size": 10944,
              "n_group": 1, "topk_group": 1)", 15'706'484'224, 2'661'150'208},
           {"gpt-oss-20b", R"("model_type": "gpt_oss", "num_hidden_layers": 24, "num_local_experts": 32)",
            20'914'757'184, 4'187'440'704}}) {
    SCOPED_TRACE(title);
    std::string message;
    auto module = configs.read(fields, message, 0);
    ASSERT_TRUE(module && succeeded(verify(*module))) << message;
    EXPECT_EQ(parametersOf(*module), parameters);
    EXPECT_EQ(activeParametersOf(*module), active);
  }
}

// The two largest, from their published configs, in a time that one waits for. 14,848 of DeepSeek-V3's
// are the biases of the choice, which transformers does not count.
TEST(Experts, Published) {
  for (auto [name, parameters, active] : std::initializer_list<std::tuple<const char *, int64_t, int64_t>>{
           {"deepseek-v3", 671'026'419'200, 37'552'297'472}, {"gpt-oss-120b", 116'829'156'672, 5'711'982'912}}) {
    SCOPED_TRACE(name);
    MLIRContext context;
    std::string message;
    auto start = std::chrono::steady_clock::now();
    auto module = import(context, dataPath(name), optionsFor(1, 0), message);
    std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    ASSERT_TRUE(module && succeeded(verify(*module))) << message;
    EXPECT_NE(message.find("\"quantization_config\""), std::string::npos) << message;
    EXPECT_EQ(parametersOf(*module), parameters);
    EXPECT_EQ(activeParametersOf(*module), active);
    EXPECT_LT(taken.count(), 10);
  }
}

// Returns a letter for each layer: s for one with a mixture, d for a dense one.
std::string layersOf(ModuleOp module) {
  std::string out;
  module.walk([&](Operation *op) {
    if (isa<graph::AttentionOp>(op))
      out += "d";
    else if (isa<graph::RouteOp>(op))
      out.back() = 's';
  });
  return out;
}

// Returns the mean cross entropy of the labels that are not negative.
double meanLoss(const graph::Tensor &logits, const graph::Tensor &labels) {
  double sum = 0;
  int64_t count = 0, vocabulary = logits.shape.back();
  for (int64_t row = 0; row < labels.size(); ++row) {
    if (labels.data[row] < 0)
      continue;
    const double *own = &logits.data[row * vocabulary];
    double most = *std::max_element(own, own + vocabulary), total = 0;
    for (int64_t i = 0; i < vocabulary; ++i)
      total += std::exp(own[i] - most);
    sum += most + std::log(total) - own[int64_t(labels.data[row])];
    ++count;
  }
  return sum / count;
}

TEST(Experts, SparseLayers) {
  Configs configs;
  const std::string sizes = R"(, "num_hidden_layers": 5, "hidden_size": 64, "num_attention_heads": 4,)"
                            R"("num_key_value_heads": 4, "intermediate_size": 32, "vocab_size": 50,)"
                            R"("num_experts_per_tok": 2, "moe_intermediate_size": 8)";
  for (auto [fields, expected] : std::initializer_list<std::pair<std::string, std::string>>{
           {R"("model_type": "mixtral")", "sssss"},
           {R"("model_type": "qwen3_moe", "decoder_sparse_step": 2)", "dsdsd"},
           {R"("model_type": "qwen3_moe", "mlp_only_layers": [0, 3])", "dssds"},
           {R"("model_type": "qwen2_moe", "decoder_sparse_step": 2, "mlp_only_layers": [1])", "dddsd"},
           {R"("model_type": "deepseek_v3")", "dddss"},
           {R"("model_type": "deepseek_v2", "first_k_dense_replace": 1)", "dssss"},
           {R"("model_type": "gpt_oss")", "sssss"}}) {
    std::string message;
    auto module = configs.read(fields + sizes, message, 16);
    ASSERT_TRUE(bool(module)) << fields << message;
    EXPECT_EQ(layersOf(*module), expected) << fields;
  }
}

// A model that is written with a tensor for each expert, and one with all of them in one tensor, are the
// same but for their sources.
TEST(Experts, Stacked) {
  for (auto [name, isStacked, source] : std::initializer_list<std::tuple<const char *, bool, const char *>>{
           {"mixtral", false, "model.layers.1.block_sparse_moe.experts.4.w3.weight"},
           {"qwen2_moe", true, "model.layers.1.mlp.experts.gate_up_proj"},
           {"qwen3_moe", false, "model.layers.2.mlp.experts.7.down_proj.weight"},
           {"deepseek_v2", true, "model.layers.1.mlp.experts.down_proj"},
           {"deepseek_v3", false, "model.layers.2.mlp.experts.0.up_proj.weight"},
           {"gpt_oss", true, "model.layers.0.mlp.experts.gate_up_proj_bias"}}) {
    SCOPED_TRACE(name);
    MLIRContext context;
    std::string message;
    auto module = import(context, dataPath(name), optionsFor(1, 16), message);
    ASSERT_TRUE(module && succeeded(verify(*module))) << message;
    EXPECT_TRUE(module->lookupSymbol<graph::SourceOp>(source)) << source;
    for (auto each : module->getOps<graph::SourceOp>()) {
      EXPECT_TRUE(each.getFile().has_value()) << each.getSymName().str();
      EXPECT_FALSE(isStacked && each.getSymName().contains(".experts.0.")) << each.getSymName().str();
    }
  }
}

// The elements of a stacked tensor that states view: gate, then up, of each expert; interleaved in GPT-OSS.
TEST(Experts, Views) {
  auto viewsOf = [](ModuleOp module, llvm::StringRef of) {
    std::vector<std::string> out;
    for (auto state : module.getOps<graph::StateOp>())
      for (auto view : state.getViews()->getAsRange<graph::ViewAttr>())
        if (view.getSource().getValue() == of) {
          out.push_back(std::to_string(view.getOffset()) + ":");
          for (int64_t stride : view.getStrides())
            out.back() += " " + std::to_string(stride);
        }
    return out;
  };
  MLIRContext context;
  std::string message;
  auto stacked = import(context, dataPath("qwen2_moe"), optionsFor(1, 16), message);
  ASSERT_TRUE(bool(stacked)) << message;
  std::vector<std::string> expected; // 8 experts, gate and up of 12 x 24
  for (int64_t up : {0, 288})
    for (int64_t expert = 0; expert < 8; ++expert)
      expected.push_back(std::to_string(expert * 576 + up) + ": 24 1");
  EXPECT_EQ(viewsOf(*stacked, "model.layers.0.mlp.experts.gate_up_proj"), expected);
  auto interleaved = import(context, dataPath("gpt_oss"), optionsFor(1, 16), message);
  ASSERT_TRUE(bool(interleaved)) << message;
  EXPECT_EQ(viewsOf(*interleaved, "model.layers.0.mlp.experts.gate_up_proj"),
            (std::vector<std::string>{"0: 576 24 2", "1: 576 24 2"}));
  EXPECT_EQ(viewsOf(*interleaved, "model.layers.0.mlp.experts.gate_up_proj_bias"),
            (std::vector<std::string>{"0: 24 2", "1: 24 2"}));
}

// The mean loss of the forward pass in double, against the one of transformers (test/data/make).
TEST(Experts, Losses) {
  for (auto [name, expected] : std::initializer_list<std::pair<const char *, double>>{
           {"mixtral", 4.718785232152},
           {"qwen2_moe", 4.622106138217},
           {"qwen3_moe", 4.726647429784},
           {"deepseek_v2", 4.603745688207},
           {"deepseek_v3", 4.630402787007},
           {"gpt_oss", 4.934351224875}}) {
    SCOPED_TRACE(name);
    MLIRContext context;
    std::string message;
    auto module = import(context, dataPath(name), optionsFor(8, 16), message);
    ASSERT_TRUE(bool(module)) << message;
    graph::Tensor ids = readNpy(dataPath(std::string(name) + "/input_ids.npy"));
    graph::Tensor labels = readNpy(dataPath(std::string(name) + "/labels.npy"));
    auto got = graph::evaluate(module->lookupSymbol<func::FuncOp>("forward"), arguments(*module, ids));
    ASSERT_TRUE(succeeded(got));
    EXPECT_NEAR(meanLoss((*got)[0], labels), expected, 1e-9 * expected);
  }
}

TEST(Experts, AuxiliaryLoss) {
  Configs configs;
  const std::string mixtral = R"("model_type": "mixtral", "num_hidden_layers": 1, "output_router_logits": )";
  for (bool asks : {false, true}) {
    std::string message;
    ASSERT_TRUE(bool(configs.read(mixtral + (asks ? "true" : "false"), message, 16))) << message;
    EXPECT_EQ(message.find("with an auxiliary loss of routers") != std::string::npos, asks) << message;
  }
}

// transformers builds such a model too, but nobody should take it for a mixture.
TEST(Experts, NoneLeft) {
  Configs configs;
  for (int dense : {0, 1, 2, 9}) {
    std::string message;
    ASSERT_TRUE(bool(configs.read(R"("model_type": "deepseek_v3", "num_hidden_layers": 2, "hidden_size": 16,)"
                                  R"("num_attention_heads": 2, "num_key_value_heads": 2,)"
                                  R"("intermediate_size": 8, "moe_intermediate_size": 8, "vocab_size": 11,)"
                                  R"("first_k_dense_replace": )" + std::to_string(dense), message, 16)))
        << message;
    EXPECT_EQ(message.find("no layer has experts, since \"first_k_dense_replace\" " + std::to_string(dense)) !=
                  std::string::npos,
              dense >= 2)
        << message;
  }
}

// A field with a bad value is not compared with others: what takes its place is not the user's.
TEST(Experts, OneMistakeOneLine) {
  Configs configs;
  for (const char *fields : {R"("model_type": "deepseek_v3", "n_routed_experts": 12, "n_group": 0)",
                             R"("model_type": "mixtral", "num_experts_per_tok": 9, "num_local_experts": 0)",
                             R"("model_type": "mixtral", "hidden_size": 4112, "num_attention_heads": 0)"}) {
    std::string message;
    EXPECT_FALSE(bool(configs.read(fields, message, 16)));
    EXPECT_EQ(std::count(message.begin(), message.end(), '\n'), 1) << message;
    EXPECT_NE(message.find("must be a positive integer, got 0"), std::string::npos) << message;
  }
}

TEST(Experts, Refusals) {
  Configs configs;
  auto of = [](const std::string &type) { return "\"model_type\": \"" + type + "\", \"num_hidden_layers\": 1, "; };
  configs.refuses(of("mixtral") + R"("num_experts_per_tok": 9)",
                  {"\"num_experts_per_tok\" 9 is more than \"num_local_experts\" 8"});
  configs.refuses(of("qwen3_moe") + R"("num_experts": 9, "num_local_experts": 6)",
                  {"\"num_experts\" 9 and \"num_local_experts\" 6 are two values of one quantity; keep one"});
  configs.refuses(of("gpt_oss") + R"("num_experts_per_tok": 2, "experts_per_token": 4)",
                  {"\"num_experts_per_tok\" 2 and \"experts_per_token\" 4"});
  configs.refuses(of("mixtral") + R"("num_local_experts": 1000000)",
                  {"1 x 1000000 experts", "more than 65536"});
  configs.refuses(of("mixtral") + R"("num_local_experts": 0)", {"\"num_local_experts\" must be a positive integer"});
  configs.refuses(of("mixtral") + R"("num_local_experts": 1000000000000)",
                  {"\"num_local_experts\" must be from 1 to 1073741824, got 1000000000000"});
  configs.refuses(of("mixtral") + R"("num_local_experts": 1e12)", {"from 1 to 1073741824, got 1000000000000.0"});
  configs.refuses(of("deepseek_v3") + R"("first_k_dense_replace": -1)",
                  {"\"first_k_dense_replace\" must be an integer of 0 or more, got -1"});
  configs.refuses(of("mixtral") + R"("router_jitter_noise": 0.1)", {"router_jitter_noise"});
  configs.refuses(of("qwen3_moe") + R"("mlp_only_layers": [1])", {"mlp_only_layers", "no layer 1", "0 to 0"});
  configs.refuses(of("qwen3_moe") + R"("mlp_only_layers": ["0"])", {"mlp_only_layers", "a list of numbers"});
  configs.refuses(of("qwen2_moe") + R"("decoder_sparse_step": 0)", {"decoder_sparse_step"});
  configs.refuses(of("deepseek_v3") + R"("n_group": 7)",
                  {"\"n_routed_experts\" 256 is not divisible by \"n_group\" 7"});
  configs.refuses(of("deepseek_v3") + R"("topk_group": 9)", {"\"topk_group\" 9 is more than \"n_group\" 8"});
  configs.refuses(of("deepseek_v3") + R"("n_group": 256)", {"\"n_group\" 256", "1 experts a group", "2 choose"});
  configs.refuses(of("deepseek_v3") + R"("topk_group": 1, "num_experts_per_tok": 33)",
                  {"\"num_experts_per_tok\" 33 is more than the 32 experts of \"topk_group\" 1"});
  configs.refuses(of("deepseek_v3") + R"("scoring_func": "softmax")", {"scoring_func", "softmax", "sigmoid is"});
  configs.refuses(of("deepseek_v3") + R"("topk_method": "greedy")", {"topk_method", "noaux_tc is"});
  configs.refuses(of("deepseek_v3") + R"("num_key_value_heads": 8)", {"num_key_value_heads", "8", "128"});
  configs.refuses(of("deepseek_v3") + R"("moe_layer_freq": 2)", {"moe_layer_freq"});
  configs.refuses(of("deepseek_v3") + R"("qk_nope_head_dim": 1073741824)", {"1073741952", "128 heads"});
  configs.refuses(of("deepseek_v2") + R"("topk_method": "noaux_tc", "num_experts_per_tok": 2)",
                  {"topk_method", "noaux_tc", "group_limited_greedy"});
  configs.refuses(of("deepseek_v2") + R"("hidden_act": "silu")", {"num_experts_per_tok", "missing"});
  configs.refuses(of("deepseek_v2") + R"("num_experts_per_tok": 2, "norm_topk_prob": true)", {"norm_topk_prob"});
  configs.refuses(of("deepseek_v2") + R"("num_experts_per_tok": 2, "scoring_func": "sigmoid")",
                  {"scoring_func", "softmax is"});
  configs.refuses(of("gpt_oss") + R"("swiglu_limit": 0)", {"swiglu_limit"});
}

} // namespace
