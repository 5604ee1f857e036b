// Configs of every architecture: published sizes, both generations of fields, refusals.
#include "Configs.h"

#include "lib/support/Safetensors.h"

#include <chrono>
#include <sstream>

using namespace llmc;
using namespace llmc::test;
using namespace mlir;
namespace fs = std::filesystem;

namespace {

// The published number of parameters, in a second at most (twice that is allowed
// for a slow machine).
TEST(Architectures, Sizes) {
  Configs configs;
  const std::string llama = R"("model_type": "llama", "num_attention_heads": )";
  for (auto [title, fields, parameters] :
       std::initializer_list<std::tuple<const char *, std::string, int64_t>>{
           {"Llama 2 7B", R"("model_type": "llama", "max_position_embeddings": 4096)",
            6'738'415'616},
           {"Llama 2 13B", llama + R"(40, "hidden_size": 5120, "intermediate_size": 13824,
              "num_hidden_layers": 40)", 13'015'864'320},
           {"Llama 2 70B", llama + R"(64, "num_key_value_heads": 8, "hidden_size": 8192,
              "intermediate_size": 28672, "num_hidden_layers": 80)", 68'976'648'192},
           {"Llama 3 8B", llama + R"(32, "num_key_value_heads": 8, "intermediate_size": 14336,
              "vocab_size": 128256, "rope_theta": 500000.0)", 8'030'261'248},
           {"Llama 3 70B", llama + R"(64, "num_key_value_heads": 8, "hidden_size": 8192,
              "intermediate_size": 28672, "num_hidden_layers": 80, "vocab_size": 128256)",
            70'553'706'496},
           {"Llama 3.1 405B", llama + R"(128, "num_key_value_heads": 8, "hidden_size": 16384,
              "intermediate_size": 53248, "num_hidden_layers": 126, "vocab_size": 128256,
              "max_position_embeddings": 131072, "rope_scaling": {"rope_type": "llama3",
              "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
              "original_max_position_embeddings": 8192})", 405'853'388'800},
           {"Llama 3.1 405B as first published", llama + R"(128, "num_key_value_heads": 16,
              "hidden_size": 16384, "intermediate_size": 53248, "num_hidden_layers": 126,
              "vocab_size": 128256)", 410'081'247'232},
           {"GPT-3", R"("model_type": "gpt2", "n_embd": 12288, "n_layer": 96, "n_head": 96,
              "n_positions": 2048)", 174'604'259'328},
           {"Mistral 7B", R"("model_type": "mistral")", 7'241'732'096},
           {"Qwen2 7B", R"("model_type": "qwen2", "hidden_size": 3584, "num_hidden_layers": 28,
              "num_attention_heads": 28, "num_key_value_heads": 4, "intermediate_size": 18944,
              "vocab_size": 152064)", 7'615'616'512},
           {"Qwen3 8B", R"("model_type": "qwen3", "num_hidden_layers": 36,
              "num_key_value_heads": 8, "intermediate_size": 12288)", 8'190'735'360},
           {"Pythia 6.9B", R"("model_type": "gpt_neox", "hidden_size": 4096,
              "num_hidden_layers": 32, "num_attention_heads": 32, "intermediate_size": 16384)",
            6'857'302'016},
           {"Phi-2", R"("model_type": "phi", "hidden_size": 2560, "num_hidden_layers": 32,
              "intermediate_size": 10240)", 2'779'683'840},
           {"Phi-3 mini", R"("model_type": "phi3")", 3'821'079'552},
           {"Gemma 2 2B", R"("model_type": "gemma2")", 2'614'341'888},
           {"Gemma 3 1B", R"("model_type": "gemma3_text", "hidden_size": 1152,
              "intermediate_size": 6912, "num_attention_heads": 4, "num_key_value_heads": 1,
              "vocab_size": 262144, "sliding_window": 512)", 999'885'952},
           {"OLMo 2 7B", R"("model_type": "olmo2", "vocab_size": 100352)", 7'298'617'344},
           {"Nemotron-4 15B", R"("model_type": "nemotron", "num_key_value_heads": 8)", 15'628'775'424},
           {"BERT base", R"("model_type": "bert")", 109'514'298},
           {"RoBERTa base", R"("model_type": "roberta", "max_position_embeddings": 514,
              "type_vocab_size": 1)", 124'697'433},
           {"DistilBERT", R"("model_type": "distilbert")", 66'985'530}}) {
    SCOPED_TRACE(title);
    std::string message;
    auto start = std::chrono::steady_clock::now();
    auto module = configs.read(fields, message, 0);
    std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    EXPECT_TRUE(module && succeeded(verify(*module))) << std::string(title) + ": " + message;
    if (!(module && succeeded(verify(*module))))
      continue;
    int64_t got = parametersOf(*module);
    EXPECT_TRUE(got == parameters) << std::string(title) + ": " + std::to_string(got) +
                                          " parameters, published " + std::to_string(parameters);
    EXPECT_TRUE(taken.count() < 2)
        << std::string(title) + ": read in " + std::to_string(taken.count()) + " s";
  }
}

// Fields of transformers 4 and of 5 say the same.
TEST(Architectures, Generations) {
  Configs configs;
  const std::string llama =
      R"("model_type": "llama", "num_hidden_layers": 1, "hidden_size": 64, "vocab_size": 50,)"
      R"("intermediate_size": 32, "num_attention_heads": 4, "max_position_embeddings": 64, )";
  configs.same("theta", llama + R"("rope_theta": 500.0)",
               llama + R"("rope_parameters": {"rope_type": "default", "rope_theta": 500.0})");
  configs.same("no scaling", llama + R"("rope_scaling": null)", llama + R"("rope_theta": 10000)");
  for (const char *kind :
       {R"("linear", "factor": 2.0)", R"("dynamic", "factor": 2.0)",
        R"("yarn", "factor": 4.0, "original_max_position_embeddings": 16)",
        R"("llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,)"
        R"("original_max_position_embeddings": 32)",
        R"("longrope", "factor": 4.0, "original_max_position_embeddings": 16,)"
        R"("short_factor": [1, 1, 1, 1, 1, 1, 1, 2], "long_factor": [1, 2, 3, 4, 5, 6, 7, 8])"}) {
    std::string old = llama + R"("rope_theta": 500.0, "rope_scaling": {"type": )" + kind + "}",
                now = llama + R"("rope_parameters": {"rope_theta": 500.0, "rope_type": )" + kind +
                      "}";
    configs.same("scaling", old, now);
    // Only dynamic positions do nothing within the context.
    bool dynamic = llvm::StringRef(kind).starts_with("\"dynamic");
    (dynamic ? configs.same("within the context", old, llama + R"("rope_theta": 500.0)")
             : configs.differ("scaled", old, llama + R"("rope_theta": 500.0)"));
  }
  std::string dynamic = llama + R"("rope_scaling": {"type": "dynamic", "factor": 2.0})";
  configs.differ("past the context", dynamic, llama + R"("rope_theta": 10000)", 128);

  const std::string neox =
      R"("model_type": "gpt_neox", "num_hidden_layers": 1, "hidden_size": 64, "vocab_size": 50,)"
      R"("intermediate_size": 32, "num_attention_heads": 4, )";
  configs.same("gpt_neox", neox + R"("rotary_pct": 0.5, "rotary_emb_base": 500)",
               neox + R"("rope_parameters": {"rope_theta": 500, "partial_rotary_factor": 0.5})");
  const std::string gemma =
      R"("model_type": "gemma3_text", "num_hidden_layers": 6, "hidden_size": 64, "head_dim": 16,)"
      R"("intermediate_size": 32, "vocab_size": 50, "sliding_window": 4, )";
  configs.same("gemma3",
               gemma + R"("rope_theta": 1e5, "rope_local_base_freq": 500.0,)"
                       R"("rope_scaling": {"rope_type": "linear", "factor": 8.0})",
               gemma + R"("rope_parameters": {"full_attention": {"rope_type": "linear",)"
                       R"("factor": 8.0, "rope_theta": 1e5}, "sliding_attention": {"rope_theta": 500}},)"
                       R"("layer_types": ["sliding_attention", "sliding_attention",)"
                       R"("sliding_attention", "sliding_attention", "sliding_attention",)"
                       R"("full_attention"])");
  const std::string phi3 =
      R"("model_type": "phi3", "num_hidden_layers": 1, "hidden_size": 64, "vocab_size": 50,)"
      R"("intermediate_size": 32, "num_attention_heads": 16, "max_position_embeddings": 64,)"
      R"("original_max_position_embeddings": 16, )";
  std::string factors = R"("short_factor": [1.0, 2.0], "long_factor": [3.0, 4.0])";
  configs.same("su", phi3 + R"("rope_scaling": {"type": "su", )" + factors + "}",
               phi3 + R"("rope_scaling": {"type": "longrope", )" + factors + "}");
  configs.differ("short and long rows", phi3 + R"("rope_scaling": {"type": "longrope", )" + factors + "}",
                 phi3 + R"("rope_scaling": {"type": "longrope", "short_factor": [1.0, 2.0],)"
                        R"("long_factor": [1.0, 2.0]})", 17);
}

// Windows: on which layers, and nothing where they hold the whole row.
TEST(Architectures, Windows) {
  Configs configs;
  auto windows = [&](const std::string &fields) {
    std::string message, out;
    auto module = configs.read(fields + R"(, "num_hidden_layers": 3, "hidden_size": 64,)"
                                        R"("num_attention_heads": 4, "num_key_value_heads": 2,)"
                                        R"("intermediate_size": 32, "vocab_size": 50)",
                               message, 16);
    EXPECT_TRUE(bool(module)) << fields + ": " + message;
    if (!module)
      return out;
    module->walk([&](graph::AttentionOp op) { out += std::to_string(op.getWindow().value_or(0)); });
    return out;
  };
  for (auto [fields, expected] : std::initializer_list<std::pair<std::string, std::string>>{
           {R"("model_type": "mistral", "sliding_window": 4)", "444"},
           {R"("model_type": "mistral", "sliding_window": null)", "000"},
           {R"("model_type": "mistral", "sliding_window": 16)", "000"},
           {R"("model_type": "qwen2", "sliding_window": 4, "max_window_layers": 1)", "000"},
           {R"("model_type": "qwen2", "sliding_window": 4, "max_window_layers": 1,
              "use_sliding_window": true)", "044"},
           {R"("model_type": "qwen3", "sliding_window": 4, "max_window_layers": 0,
              "use_sliding_window": true)", "444"},
           {R"("model_type": "gemma2", "sliding_window": 4)", "404"},
           {R"("model_type": "gemma2", "sliding_window": 4, "layer_types":
              ["full_attention", "full_attention", "sliding_attention"])", "004"},
           {R"("model_type": "gemma3_text", "sliding_window": 4)", "444"},
           {R"("model_type": "gemma3_text", "sliding_window": 4, "sliding_window_pattern": 3)",
            "440"},
           {R"("model_type": "phi3", "sliding_window": 4)", "444"},
           {R"("model_type": "phi3")", "000"},
           {R"("model_type": "qwen2_moe", "sliding_window": 0)", "000"},
           {R"("model_type": "qwen2_moe", "sliding_window": 4, "use_sliding_window": true)", "404"},
           {R"("model_type": "qwen2_moe", "sliding_window": 4, "use_sliding_window": true,
              "max_window_layers": 2)", "400"},
           {R"("model_type": "qwen3_moe", "sliding_window": 4)", "000"},
           {R"("model_type": "qwen3_moe", "sliding_window": 4, "use_sliding_window": true)", "444"},
           {R"("model_type": "mixtral", "sliding_window": 4)", "444"},
           {R"("model_type": "gpt_oss", "sliding_window": 4)", "404"},
           {R"("model_type": "gpt_oss", "sliding_window": null, "layer_types":
              ["full_attention", "full_attention", "full_attention"])", "000"}}) {
    SCOPED_TRACE(fields);
    EXPECT_TRUE(windows(fields) == expected) << fields + " has windows " + windows(fields);
  }
  for (const char *type : {"gpt_oss", "gemma2", "gemma3_text"})
    configs.refuses(R"("model_type": ")" + std::string(type) + R"(", "sliding_window": null, "num_hidden_layers": 2)",
                    {"\"sliding_window\" is null", "layer 0", "full_attention"});
}

TEST(Architectures, ConfigRefusals) {
  Configs configs;
  for (const char *type : {"olmoe", "llama4_text", "phimoe"})
    configs.refuses(R"("model_type": ")" + std::string(type) + R"(", "num_experts": 8)",
                    {type, "mixtures of experts", "mixtral"});
  configs.refuses(R"("model_type": "mamba")", {"mamba", "not supported", "llama", "gemma3_text"});
  configs.refuses(R"("hidden_size": 4)", {"model_type"});
  const std::string llama =
      R"("model_type": "llama", "num_hidden_layers": 2, "hidden_size": 64, "vocab_size": 50,)"
      R"("intermediate_size": 32, )";
  configs.refuses(llama + R"("num_attention_heads": 5)", {"64", "5", "num_attention_heads"});
  configs.refuses(llama + R"("num_attention_heads": 4, "num_key_value_heads": 3)",
                  {"num_key_value_heads", "3"});
  configs.refuses(llama + R"("num_attention_heads": 4, "head_dim": 7)", {"7", "pairs"});
  configs.refuses(llama + R"("num_attention_heads": 0, "hidden_act": "mish")",
                  {"num_attention_heads", "mish", "silu"});
  configs.refuses(llama + R"("num_attention_heads": 4, "rms_norm_eps": -1.0)", {"rms_norm_eps"});
  configs.refuses(llama + R"("num_attention_heads": 4, "rope_scaling": {"type": "spiral"})",
                  {"spiral", "llama3"});
  configs.refuses(llama + R"("num_attention_heads": 4, "rope_scaling": {"type": "linear"})",
                  {"rope_scaling.factor", "missing"});
  configs.refuses(llama + R"("num_attention_heads": 4, "rope_scaling": {"type": "longrope",)"
                          R"("short_factor": [1.0], "long_factor": [1.0]})",
                  {"short_factor", "8"});
  configs.refuses(llama + R"("num_attention_heads": 4, "rope_scaling": [2])",
                  {"rope_scaling", "object"});
  configs.refuses(llama + R"("num_attention_heads": 4, "rope_theta": NaN)", {"config.json"});
  configs.refuses(llama + R"("num_attention_heads": 4, "architectures": ["LlamaForTokenClassification"])",
                  {"LlamaForTokenClassification", "LlamaForCausalLM"});
  configs.refuses(R"("model_type": "llama", "hidden_size": 1073741824,)"
                  R"("num_attention_heads": 1073741824, "head_dim": 1073741824)", {"1073741824"});
  configs.refuses(llama + R"("num_attention_heads": 4, "rope_parameters": {"full_attention":)"
                          R"({"rope_theta": 100}})", {"rope_parameters.full_attention"});
  configs.refuses(R"("model_type": "gpt_neox", "head_dim": 8)", {"head_dim"});
  configs.refuses(R"("model_type": "gemma2", "layer_types": ["full_attention"])",
                  {"layer_types", "26"});
  configs.refuses(R"("model_type": "qwen2", "num_hidden_layers": 1, "layer_types": ["chunked"])",
                  {"chunked", "full_attention"});
  configs.refuses(R"("model_type": "gpt_neox", "num_hidden_layers": 100000)", {"100000", "1000"});
  configs.refuses(R"("model_type": "bert", "is_decoder": true)", {"is_decoder"});
  configs.refuses(R"("model_type": "bert", "position_embedding_type": "relative_key")",
                  {"relative_key"});
  configs.refuses(R"("model_type": "bert", "max_position_embeddings": 8)", {"16", "8", "--seq"});
  configs.refuses(R"("model_type": "roberta", "max_position_embeddings": 17)", {"16", "15"});
  configs.refuses(R"("model_type": "gpt2", "n_embd": null, "n_head": null)",
                  {"\"n_embd\" must be a positive integer, got null", "\"n_head\""});
}

// Checks that each field of a config that a program does not follow is noted in a line of its own.
TEST(Architectures, Notes) {
  fs::path folder = fs::temp_directory_path() / ("llmc-notes-" + std::to_string(::getpid()));
  fs::create_directories(folder);
  auto notes = [&](const std::string &fields, bool infer) {
    std::ofstream(folder / "config.json")
        << R"({"model_type": "gpt2", "n_embd": 8, "n_head": 2, "n_layer": 1, "vocab_size": 11,)"
        << fields << "}";
    MLIRContext context;
    CompileOptions options = optionsFor(1, 16);
    options.infer = infer;
    std::string message;
    EXPECT_TRUE(bool(import(context, folder.string(), options, message))) << "notes: " + message;
    return message;
  };
  const std::string rates = R"("attn_pdrop": 0.1, "resid_pdrop": 0.0, "summary_first_dropout": 0.5)";
  std::string said = notes(rates, false);
  EXPECT_TRUE(said.find("trains without dropout, for which the config has rates (attn_pdrop 0.1): "
                        "--dropout config") != std::string::npos)
      << "dropout: " + said;
  EXPECT_TRUE(notes(rates, true).empty()) << "a model that is run drops nothing";
  EXPECT_TRUE(notes(R"("attn_pdrop": 0.0, "n_inner": null)", false).empty()) << "nothing to say";
  said = notes(R"("quantization_config": {"quant_method": "fp8"})", false);
  EXPECT_TRUE(said.find("\"quantization_config\" (fp8) is not used") != std::string::npos)
      << "quantization: " + said;
  std::error_code code;
  fs::remove_all(folder, code);
}

// The language model inside a model of images and text, under the names of both generations.
TEST(Architectures, Wrapped) {
  Configs configs;
  const std::string inner =
      R"("model_type": "gemma3_text", "num_hidden_layers": 1, "hidden_size": 64, "head_dim": 16,)"
      R"("intermediate_size": 32, "vocab_size": 50)";
  std::string message;
  auto module = configs.read(R"("model_type": "gemma3", "text_config": {)" + inner + "}", message, 8);
  ASSERT_TRUE(bool(module)) << "a wrapped gemma3: " + message;
  auto plain = configs.read(inner, message, 8);
  EXPECT_TRUE(parametersOf(*module) == parametersOf(*plain))
      << "a wrapped model has the same parameters";
  EXPECT_TRUE(bool(module->lookupSymbol("model.language_model.layers.0.self_attn.q_proj.weight")))
      << "a wrapped model has the names of its checkpoint";
}

// Weights of other types keep them on the source; two files are found by their index.
TEST(Architectures, Stored) {
  for (auto [name, type, files] : std::initializer_list<std::tuple<const char *, const char *, size_t>>{
           {"qwen2", "bf16", 1}, {"phi3", "f16", 1}, {"olmo2", "f64", 1}, {"gemma2", "f32", 2}}) {
    SCOPED_TRACE(name);
    MLIRContext context;
    std::string message;
    auto module = import(context, dataPath(name), optionsFor(1, 16), message);
    EXPECT_TRUE(bool(module)) << std::string(name) + ": " + message;
    if (!module)
      continue;
    EXPECT_TRUE((*module)->getAttrOfType<ArrayAttr>("graph.files").size() == files)
        << std::string(name) + ": files";
    for (auto source : module->getOps<graph::SourceOp>()) {
      std::string text;
      llvm::raw_string_ostream(text) << cast<ShapedType>(source.getType()).getElementType();
      EXPECT_TRUE(source.getFile() && text == type) << std::string(name) + ": " + text;
    }
    for (auto state : module->getOps<graph::StateOp>())
      EXPECT_TRUE(cast<ShapedType>(state.getType()).getElementType().isF32()) << "states are f32";
  }
}

// Checkpoints under names of older versions; what does not fit is listed at once.
TEST(Architectures, Spellings) {
  fs::path folder = fs::temp_directory_path() / ("llmc-spellings-" + std::to_string(::getpid()));
  fs::create_directories(folder);
  for (auto [name, part, instead] : std::initializer_list<std::tuple<const char *, const char *, const char *>>{
           {"gpt_neox", "lm_head.", "embed_out."},
           {"bert", "LayerNorm.weight", "LayerNorm.gamma"},
           {"bert", "LayerNorm.bias", "LayerNorm.beta"}}) {
    auto set = support::SafetensorsSet::open(dataPath(std::string(name) + "/weights.safetensors"));
    EXPECT_TRUE(bool(set)) << std::string("opens the weights of ") + name;
    if (!set)
      continue;
    std::vector<support::TensorToWrite> tensors;
    size_t renamed = 0;
    for (const std::string &stored : set->names()) {
      const support::TensorView *view = set->find(stored);
      support::TensorToWrite tensor{stored, view->type, view->shape, {}};
      if (size_t at = stored.find(part); at != std::string::npos) {
        tensor.name.replace(at, std::string(part).size(), instead);
        ++renamed;
      }
      tensor.produce = [view](const auto &sink) { return sink(view->data, view->byteSize); };
      tensors.push_back(std::move(tensor));
    }
    EXPECT_TRUE(renamed > 0) << std::string(name) + " has tensors called " + part;
    EXPECT_TRUE(bool(support::writeSafetensors((folder / "model.safetensors").string(), tensors)))
        << "writes";
    fs::copy_file(dataPath(std::string(name) + "/config.json"), folder / "config.json",
                  fs::copy_options::overwrite_existing);
    MLIRContext context;
    std::string message;
    EXPECT_TRUE(bool(import(context, folder.string(), optionsFor(1, 16), message)))
        << std::string(name) + " with " + instead + ": " + message;
  }
  // A model of another size is refused: every tensor is named, with both shapes.
  std::ofstream(folder / "config.json")
      << R"({"model_type": "bert", "hidden_size": 12, "num_attention_heads": 2, "vocab_size": 67,)"
         R"("num_hidden_layers": 3, "intermediate_size": 40, "max_position_embeddings": 20})";
  MLIRContext context;
  std::string message;
  EXPECT_TRUE(!import(context, folder.string(), optionsFor(1, 16), message))
      << "another size is refused";
  for (const char *words : {"[67, 24], the model needs [67, 12]", "'cls.predictions.transform.dense.weight'",
                            "'bert.encoder.layer.2.output.dense.weight': missing"})
    EXPECT_TRUE(message.find(words) != std::string::npos)
        << std::string("the message lacks ") + words;
  std::ofstream(folder / "config.json") << R"({"model_type": "bert", "quantization_config": {"bits": 4}})";
  message.clear();
  EXPECT_TRUE(!import(context, folder.string(), optionsFor(1, 16), message) &&
              message.find("quantization_config") != std::string::npos)
      << "quantized weights are refused: " + message;
  std::error_code code;
  fs::remove_all(folder, code);
}

} // namespace
