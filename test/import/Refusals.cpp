// Broken files: one message each, never a crash.
#include "Folder.h"
#include "GraphBuilder.h"

#include "mlir/IR/Verifier.h"
#include "onnx-ml.pb.h"
#include "test/support/CommandLine.h"
#include "test/support/Names.h"

#include <cstdlib>
#include <functional>
#include <random>

using namespace llmc;
using namespace llmc::test;
using namespace mlir;
namespace fs = std::filesystem;

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
    EXPECT_TRUE(!module && !message.empty()) << what + " is refused";
    for (const char *word : words)
      EXPECT_TRUE(message.find(word) != std::string::npos)
          << what + ": the message lacks '" + word + "': " + message;
  }
  void refusesOnnx(const std::string &what, const std::function<void(::onnx::GraphProto &)> &edit,
                   std::initializer_list<const char *> words) {
    ::onnx::ModelProto proto;
    EXPECT_TRUE(proto.ParseFromString(model)) << "the model parses";
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

TEST(Refusals, Onnx) {
  Tester t;
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

// Checks what of a choice among experts cannot run: more choices than experts, and rows of which the number
// depends on the choice where they are not put together again.
TEST(Refusals, Experts) {
  for (int64_t choices : {3, 7}) {
    Graph g;
    g.floats("router", {width, 6}, 2);
    g.floats("experts", {3, 6}, 3);
    g.ints("k", {choices});
    g.node("MatMul", {"x", "router"}, {"scores"});
    g.node("TopK", {"scores", "k"}, {"best", "index"}).set_name("choose");
    g.node("Softmax", {"best"}, {"shares"});
    g.node("MatMul", {"shares", "experts"}, {"logits"});
    if (choices > 6)
      test::refuses("choices", run(g), {"'choose'", "TopK", "k = 7"});
    else
      EXPECT_EQ(run(g).message, "");
  }
  for (std::string last : {"rows", "sum", "shape", "step", "joined"}) {
    Graph g;
    g.ints("flat", {-1, width});
    g.ints("zero", {0});
    g.ints("one", {1});
    g.ints("two", {2});
    g.node("Reshape", {"x", "flat"}, {"all"});
    g.node("ReduceMax", {"ids"}, {"most"});
    g.node("Range", {"zero", "most", last == "step" ? "two" : "one"}, {"range"}).set_name("count");
    g.node("Gather", {"all", "range"}, {"some"}).set_name("take");
    if (last == "sum")
      g.node("ReduceSum", {"some"}, {"logits"}).set_name("last");
    else if (last == "shape")
      g.node("Shape", {"some"}, {"size"}), g.node("Mul", {"size", "two"}, {"logits"}).set_name("last");
    else if (last == "joined")
      g.node("Concat", {"some", "some"}, {"logits"}).set_name("last"); // lacks an axis, which is then 0
    else
      g.node("Identity", {"some"}, {"logits"}).set_name("last");
    if (last == "step")
      test::refuses(last, run(g), {"'count'", "Range", "depends on the values of inputs", "steps of 1"});
    else if (last == "sum" || last == "shape" || last == "joined")
      test::refuses(last, run(g), {"'last'", "depends on the values of inputs", "Concat"});
    else
      test::refuses(last, run(g), {"'logits'", "a number of rows that depends on the values of inputs"});
  }
}

TEST(Refusals, External) {
  Tester t;
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

void setInts(::onnx::TensorProto &tensor, std::initializer_list<int64_t> dims) {
  tensor.clear_dims();
  for (int64_t d : dims)
    tensor.add_dims(d);
}

// Models that are well-formed files and no good models.
TEST(Refusals, Broken) {
  Tester t;
  using Model = ::onnx::ModelProto;
  auto refusesModel = [&](const std::string &what, const std::function<void(Model &)> &edit,
                          std::initializer_list<const char *> words) {
    Model proto;
    EXPECT_TRUE(proto.ParseFromString(t.model)) << "the model parses";
    edit(proto);
    t.refuses(what, t.folder.write("model.onnx", proto.SerializeAsString()), optionsFor(2, 12),
              words);
  };
  auto opset = [](int64_t version) {
    return [=](Model &m) { m.mutable_opset_import(0)->set_version(version); };
  };
  refusesModel("an unknown set of operators", opset(99), {"99", "not known", "7 to 28"});
  refusesModel("a negative set of operators", opset(-3), {"-3", "too old"});
  refusesModel("an old set of operators", opset(5), {"5", "too old"});
  refusesModel("no set of operators", [](Model &m) { m.clear_opset_import(); }, {"opset"});
  refusesModel("no graph", [](Model &m) { m.clear_graph(); }, {"no graph"});
  auto type = [](Model &m) {
    return m.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type();
  };
  refusesModel("input of strings", [&](Model &m) { type(m)->set_elem_type(8); },
               {"input_ids", "string"});
  refusesModel("input of an unknown type", [&](Model &m) { type(m)->set_elem_type(77); },
               {"input_ids", "type 77"});
  refusesModel("input without a shape", [&](Model &m) { type(m)->clear_shape(); },
               {"input_ids", "no shape"});
  refusesModel("input that is a sequence",
               [](Model &m) { m.mutable_graph()->mutable_input(0)->mutable_type()->mutable_sequence_type(); },
               {"input_ids", "not a tensor"});
  refusesModel("two inputs of one name",
               [](Model &m) { *m.mutable_graph()->add_input() = m.graph().input(0); },
               {"input_ids", "twice"});
  t.refusesOnnx("two weights of one name",
                [](auto &g) { *g.add_initializer() = g.initializer(2); }, {"stored twice"});
  t.refusesOnnx("a weight with a negative dim",
                [](auto &g) { setInts(*g.mutable_initializer(0), {-64, 32}); },
                {"wpe", "[-64, 32]"});
  t.refusesOnnx("a weight with a huge dim",
                [](auto &g) { setInts(*g.mutable_initializer(0), {INT64_MAX, INT64_MAX}); },
                {"wpe", "shape"});
  t.refusesOnnx("a weight with a dim of 0",
                [](auto &g) {
                  setInts(*g.mutable_initializer(3), {32, 0});
                  g.mutable_initializer(3)->clear_raw_data();
                  g.mutable_initializer(3)->set_raw_data("");
                },
                {"[32, 0]", "no elements"});
  t.refusesOnnx("a weight of unknown type",
                [](auto &g) { g.mutable_initializer(0)->set_data_type(99); }, {"wpe", "type 99"});
  t.refusesOnnx("a weight without a name",
                [](auto &g) { g.mutable_initializer(0)->clear_name(); }, {"no name"});
  t.refusesOnnx("a sparse weight", [](auto &g) { g.add_sparse_initializer(); }, {"sparse"});
  t.refusesOnnx("a loop", [](auto &g) { nodeOf(g, "Tanh").set_op_type("Loop"); },
                {"Loop", "node_tanh'"});
  t.refusesOnnx("no outputs", [](auto &g) { g.clear_output(); }, {"no outputs"});
  t.refusesOnnx("outputs that nothing makes",
                [](auto &g) { g.mutable_output(0)->set_name("lost"); }, {"lost", "nothing"});
}

// A file cut anywhere is refused as a whole.
TEST(Refusals, Truncated) {
  Tester t;
  size_t refused = 0, cuts = 0;
  for (size_t size = 1; size < t.model.size(); size += 1000, ++cuts) {
    std::string message;
    auto module = import(t.context, t.folder.write("cut.onnx", t.model.substr(0, size)),
                         optionsFor(2, 12), message);
    refused += !module && message.find("cut.onnx") != std::string::npos;
  }
  EXPECT_TRUE(refused == cuts && cuts > 100)
      << std::to_string(cuts - refused) + " of " + std::to_string(cuts) + " cut files are read";
}

// Beyond what protobuf itself can hold: 3 GiB in one tensor, most of them a hole.
TEST(Refusals, TwoGigabytes) {
  Tester t;
  auto field = [](int number, uint64_t size) {
    std::string out(1, static_cast<char>(number << 3 | 2));
    for (; size >= 0x80; size >>= 7)
      out.push_back(static_cast<char>(size | 0x80));
    out.push_back(static_cast<char>(size));
    return out;
  };
  constexpr uint64_t rows = 3 << 18, columns = 1024, bytes = rows * columns * 4;
  ::onnx::TensorProto tensor;
  tensor.set_name("large");
  tensor.set_data_type(::onnx::TensorProto::FLOAT);
  setInts(tensor, {rows, columns});
  std::string head = tensor.SerializeAsString(), raw = field(9, bytes);
  uint64_t whole = head.size() + raw.size() + bytes;
  // A second `graph` of the model: protobuf joins the two.
  std::string file = t.model + field(7, field(5, whole).size() + whole) + field(5, whole) + head + raw;
  std::string path = t.folder.write("model.onnx", file);
  fs::resize_file(path, file.size() + bytes);
  std::string message;
  EXPECT_TRUE(bool(import(t.context, path, optionsFor(2, 12), message)))
      << "3 GiB inside: " + message;
  fs::resize_file(path, file.size() + bytes - 1);
  t.refuses("3 GiB but one byte", path, optionsFor(2, 12), {"model.onnx", "truncated"});
}

TEST(Refusals, Config) {
  Tester t;
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

class Mutation : public testing::TestWithParam<const char *> {};

// Checks that a file of which random bytes are changed is accepted or refused without a crash.
TEST_P(Mutation, IsReadOrRefused) {
  Tester t;
  std::mt19937_64 random(draws().seed);
  int refused = 0;
  std::string good = readAll(dataPath(std::string("gpt2-tiny/") + GetParam()));
  for (int draw = 0; draw < draws().count; ++draw) {
    SCOPED_TRACE("mutant " + std::to_string(draw));
    // Nodes come first, then initializers: change more of the nodes.
    std::string bytes = good;
    for (int change = 0, n = 1 + random() % 8; change < n; ++change)
      bytes[random() % (random() % 4 ? bytes.size() / 5 : bytes.size())] =
          static_cast<char>(random() % 3 ? random() % 16 : random());
    std::string message, path = t.folder.write("mutant.onnx", bytes);
    MLIRContext context;
    auto module = import(context, path, optionsFor(2, 12), message);
    refused += !module;
    EXPECT_TRUE(module ? succeeded(verify(*module)) : !message.empty())
        << "neither refused with a message nor good";
  }
  EXPECT_TRUE(refused > 0) << "some mutants are refused";
}

INSTANTIATE_TEST_SUITE_P(Files, Mutation,
                         testing::Values("dynamo.onnx", "torchscript.onnx", "attention23.onnx"),
                         [](const auto &info) { return testName(info.param); });

} // namespace
