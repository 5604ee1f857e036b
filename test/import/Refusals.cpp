// Broken files: one message each, never a crash.
#include "Folder.h"

#include "mlir/IR/Verifier.h"
#include "onnx-ml.pb.h"

#include <cstdlib>
#include <functional>
#include <random>

using namespace llmc;
using namespace llmc::test;
using namespace mlir;

namespace {

struct Tester {
  MLIRContext context;
  Folder folder;
  std::string model = readAll(dataPath("gpt2-tiny/dynamo.onnx"));
  std::string config = readAll(dataPath("gpt2-tiny/config.json"));

  void refuses(const std::string &what, const std::string &path, const CompileOptions &options,
               std::initializer_list<const char *> words) {
    std::string message;
    auto module = import(context, path, options, message);
    check(!module && !message.empty(), what + " is refused");
    for (const char *word : words)
      check(message.find(word) != std::string::npos,
            what + ": the message lacks '" + word + "': " + message);
  }
  void refusesOnnx(const std::string &what, const std::function<void(::onnx::GraphProto &)> &edit,
                   std::initializer_list<const char *> words) {
    ::onnx::ModelProto proto;
    check(proto.ParseFromString(model), "the model parses");
    edit(*proto.mutable_graph());
    refuses(what, folder.write("model.onnx", proto.SerializeAsString()), optionsFor(2, 12), words);
  }
  void refusesConfig(const std::string &field, const std::string &value,
                     std::initializer_list<const char *> words) {
    std::string text = config, key = "\"" + field + "\": ";
    size_t at = text.find(key) + key.size();
    text.replace(at, text.find_first_of(",\n", at) - at, value);
    CompileOptions options = optionsFor(2, 12);
    options.weights = "random";
    refuses(field + " " + value, folder.write("config.json", text), options, words);
  }
};

::onnx::NodeProto &nodeOf(::onnx::GraphProto &graph, const char *op, int which = 0) {
  for (auto &node : *graph.mutable_node())
    if (node.op_type() == op && which-- == 0)
      return node;
  std::abort();
}

void testOnnx(Tester &t) {
  t.refuses("no file", dataPath("gpt2-tiny/none.onnx"), optionsFor(2, 12), {"no such file"});
  t.refuses("an empty file", t.folder.write("empty.onnx", ""), optionsFor(2, 12), {"empty"});
  t.refuses("text", t.folder.write("text.onnx", "version https://git-lfs"), optionsFor(2, 12),
            {"ONNX"});
  t.refuses("half a file", t.folder.write("half.onnx", t.model.substr(0, t.model.size() / 2)),
            optionsFor(2, 12), {"truncated"});
  t.refuses("a long sequence", dataPath("gpt2-tiny/dynamo.onnx"), optionsFor(2, 65),
            {"65", "64", "wpe", "--seq"});
  CompileOptions unknownDim = optionsFor(2, 12);
  unknownDim.dims["depth"] = 3;
  t.refuses("a dim that is not there", dataPath("gpt2-tiny/dynamo.onnx"), unknownDim,
            {"depth", "batch", "sequence"});
  t.refusesOnnx(
      "two unknown ops",
      [](auto &graph) {
        nodeOf(graph, "Gemm").set_op_type("Foo");
        nodeOf(graph, "Tanh").set_domain("com.example");
      },
      {"Foo", "node_addmm'", "com.example::Tanh", "node_tanh'"});
  t.refusesOnnx(
      "a cycle",
      [](auto &graph) { nodeOf(graph, "Add", 1).set_input(1, "logits"); }, {"cycle"});
  t.refusesOnnx(
      "an undefined value",
      [](auto &graph) { nodeOf(graph, "Tanh").set_input(0, "nothing"); }, {"nothing", "Tanh"});
  t.refusesOnnx(
      "a value defined twice",
      [](auto &graph) { nodeOf(graph, "Tanh").set_output(0, "logits"); }, {"logits", "twice"});
  t.refusesOnnx(
      "a short tensor",
      [](auto &graph) { graph.mutable_initializer(0)->mutable_raw_data()->resize(100); },
      {"wpe", "100"});
  t.refusesOnnx(
      "half precision of whole size",
      [](auto &graph) { graph.mutable_initializer(0)->set_data_type(10); },
      {"wpe", "4096 bytes", "8192"});
  t.refusesOnnx(
      "strings", [](auto &graph) { graph.mutable_initializer(0)->set_data_type(8); }, {"string"});
  t.refusesOnnx(
      "a shape that does not fit",
      [](auto &graph) { graph.mutable_initializer(3)->set_dims(0, 96),
                        graph.mutable_initializer(3)->set_dims(1, 32); },
      {"node_addmm'", "Gemm"});
}

void testExternal(Tester &t) {
  auto external = [](const char *location, const char *offset) {
    return [=](::onnx::GraphProto &graph) {
      auto *tensor = graph.mutable_initializer(0);
      tensor->clear_raw_data();
      tensor->set_data_location(::onnx::TensorProto::EXTERNAL);
      for (auto [key, value] : {std::pair("location", location), std::pair("offset", offset)}) {
        auto *entry = tensor->add_external_data();
        entry->set_key(key);
        entry->set_value(value);
      }
    };
  };
  t.folder.write("small.bin", std::string(64, 'x'));
  t.refusesOnnx("a missing external file", external("none.bin", "0"), {"none.bin", "missing"});
  t.refusesOnnx("a short external file", external("small.bin", "0"), {"64 bytes", "truncated"});
  t.refusesOnnx("an offset beyond the file", external("small.bin", "99999999999"), {"64 bytes"});
  t.refusesOnnx("a broken offset", external("small.bin", "1x"), {"offset", "1x"});
  t.refusesOnnx("a path that climbs", external("../small.bin", "0"), {"leaves its folder"});
  t.refusesOnnx("an absolute path", external("/etc/passwd", "0"), {"leaves its folder"});
}

void testConfig(Tester &t) {
  t.refuses("no config", dataPath("none/config.json"), optionsFor(2, 12), {"no such file"});
  t.refuses("broken JSON", t.folder.write("config.json", "{"), optionsFor(2, 12), {"JSON"});
  t.refusesConfig("model_type", "\"llama2000\"", {"llama2000", "gpt2"});
  t.refusesConfig("n_head", "5", {"n_head", "5", "32"});
  t.refusesConfig("n_layer", "-2", {"n_layer", "-2"});
  t.refusesConfig("n_embd", "1e400", {});
  t.refusesConfig("n_embd", "32.5", {"n_embd", "32.5"});
  t.refusesConfig("vocab_size", "18446744073709551615", {"vocab_size"});
  t.refusesConfig("layer_norm_epsilon", "0", {"layer_norm_epsilon"});
  t.refusesConfig("activation_function", "\"mish\"", {"mish", "gelu_new"});
  t.refusesConfig("tie_word_embeddings", "\"yes\"", {"tie_word_embeddings"});
  t.refusesConfig("n_positions", "8", {"12", "8", "--seq"});
}

} // namespace

void test::testRefusals() {
  Tester t;
  testOnnx(t);
  testExternal(t);
  testConfig(t);
}

void test::testMutations(int draws, uint64_t seed) {
  Tester t;
  std::mt19937_64 random(seed);
  int refused = 0;
  for (const char *file : {"dynamo.onnx", "torchscript.onnx", "attention23.onnx"}) {
    std::string good = readAll(dataPath(std::string("gpt2-tiny/") + file));
    for (int draw = 0; draw < draws; ++draw) {
      // Nodes come first, then initializers: change more of the nodes.
      std::string bytes = good;
      for (int change = 0, n = 1 + random() % 8; change < n; ++change)
        bytes[random() % (random() % 4 ? bytes.size() / 5 : bytes.size())] =
            static_cast<char>(random() % 3 ? random() % 16 : random());
      std::string message, path = t.folder.write("mutant.onnx", bytes);
      MLIRContext context;
      auto module = import(context, path, optionsFor(2, 12), message);
      refused += !module;
      check(module ? succeeded(verify(*module)) : !message.empty(),
            std::string(file) + ", mutant " + std::to_string(draw) +
                ": neither refused with a message nor good");
    }
  }
  check(refused > 0, "some mutants are refused");
}
