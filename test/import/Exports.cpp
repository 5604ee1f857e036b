// Tests what exporters make of a model that was just initialised, or that they do not
// optimise: parts taken from sequences, one vector in place of equal ones.
#include "GraphBuilder.h"

using namespace llmc;
using namespace llmc::test;

namespace {

void takeParts(Graph &g) {
  g.ints("zero", {0});
  g.ints("one", {1});
  g.ints("last", {-1});
  g.node("SequenceAt", {"parts", "zero"}, {"a"});
  g.node("SequenceAt", {"parts", "one"}, {"b"});
  g.node("SequenceAt", {"parts", "last"}, {"c"});
}

TEST(Exports, Sequences) {
  Graph whole;
  whole.floats("w", {width, 3 * width}, 2);
  whole.node("MatMul", {"x", "w"}, {"y"});
  Graph::attribute(whole.node("Split", {"y"}, {"a", "b", "c"}), "axis", {-1});
  finishSum(whole);
  Outcome expected = run(whole);
  EXPECT_TRUE(expected.message.empty()) << "sequences: " + expected.message;

  for (bool equal : {true, false}) {
    Graph g;
    g.floats("w", {width, 3 * width}, 2);
    g.node("MatMul", {"x", "w"}, {"y"});
    g.ints("sizes", equal ? std::vector<int64_t>{width} : std::vector<int64_t>(3, width));
    Graph::attribute(g.node("SplitToSequence", {"y", "sizes"}, {"parts"}), "axis", {-1});
    takeParts(g);
    finishSum(g);
    if (equal) // one number is the size of each part, a list of one is not
      g.graph.mutable_initializer(g.graph.initializer_size() - 5)->clear_dims();
    same(equal ? "parts of one size" : "a list of sizes", g, expected, 3);
  }

  // Without sizes every part is one slice, which loses the dim if it shall.
  for (bool keep : {true, false}) {
    Graph g;
    g.floats("w", {width, 3 * width}, 2);
    g.node("MatMul", {"x", "w"}, {"y"});
    g.ints("five", {2, 3, 3, width});
    g.node("Reshape", {"y", "five"}, {"y5"});
    auto &split = g.node("SplitToSequence", {"y5"}, {"parts"});
    Graph::attribute(split, "axis", {2});
    Graph::attribute(split, "keepdims", {keep});
    takeParts(g);
    finishSum(g);
    if (keep) { // [2, 3, 1, width]
      g.ints("three", {2, 3, 6});
      g.graph.mutable_node(g.graph.node_size() - 1)->set_output(0, "logits4");
      g.node("Reshape", {"logits4", "three"}, {"logits"});
    }
    same(keep ? "slices" : "squeezed slices", g, expected, 3);
  }

  Graph weight;
  weight.floats("w", {width, 3 * width}, 2);
  weight.ints("sizes", std::vector<int64_t>(3, width));
  Graph::attribute(weight.node("SplitToSequence", {"w", "sizes"}, {"parts"}), "axis", {1});
  weight.ints("at0", {0});
  weight.ints("at1", {1});
  weight.ints("at2", {2});
  for (auto [at, w, y] : {std::tuple("at0", "wa", "a"), std::tuple("at1", "wb", "b"),
                          std::tuple("at2", "wc", "c")}) {
    weight.node("SequenceAt", {"parts", at}, {w});
    weight.node("MatMul", {"x", w}, {y});
  }
  finishSum(weight);
  same("a weight's parts", weight, expected, 5);
}

TEST(Exports, WrongSequences) {
  auto refused = [](const char *what, std::vector<int64_t> sizes, int64_t at,
                    std::initializer_list<const char *> words, const char *reader = "SequenceAt") {
    Graph g;
    g.floats("w", {width, 3 * width}, 2);
    g.node("MatMul", {"x", "w"}, {"y"});
    g.ints("sizes", sizes);
    g.ints("at", {at});
    Graph::attribute(g.node("SplitToSequence", {"y", "sizes"}, {"parts"}), "axis", {-1});
    g.node(reader, {"parts", "at"}, {"a"});
    g.floats("head", {width, 6}, 3);
    g.node("MatMul", {"a", "head"}, {"logits"});
    refuses(what, run(g), words);
  };
  refused("sizes that do not fit", {width, width}, 0, {"SplitToSequence", "do not split"});
  refused("a part that is not there", {width, width, width}, 3,
          {"SequenceAt", "position 3", "3 parts"});
  refused("a sequence as a tensor", {width, width, width}, 0, {"takes tensors, got a sequence"},
          "Add");
}

// Three additions and two scalings by one vector each; a product with a matrix of its
// own, or one that is used twice, is between them.
Graph mergedVectors(bool shareMatrix) {
  Graph g;
  g.floats("scale", {width}, 4, [](size_t) { return 0; });
  g.floats("bias", {width}, 5, [](size_t) { return 0; });
  g.floats("w", {width, width}, 6);
  g.floats("v", {width, width}, 7);
  g.node("Mul", {"x", "scale"}, {"a"});
  g.node("Add", {"a", "bias"}, {"b"});
  g.node("MatMul", {"b", "w"}, {"c"});
  g.node("Add", {"c", "bias"}, {"d"});
  g.node("Mul", {"d", "scale"}, {"e"});
  g.node("MatMul", {"e", shareMatrix ? "w" : "v"}, {"f"});
  g.node("Add", {"f", "bias"}, {"h"});
  g.floats("head", {width, 6}, 3);
  g.node("MatMul", {"h", "head"}, {"logits"});
  return g;
}

TEST(Exports, MergedVectors) {
  Graph g = mergedVectors(false);
  Outcome expected = run(g, Tie::Exact);
  EXPECT_TRUE(expected.states == 6 && expected.notes.empty()) << "exact: " + expected.notes;
  Outcome own = run(g);
  same("a vector a use", own, expected, 9);
  EXPECT_TRUE((own.names == std::vector<std::string>{"table", "scale", "bias", "w", "bias#2",
                                                     "scale#2", "v", "bias#3", "head"}))
      << "names of vectors by use";
  for (const char *words : {"2 tensors of the file are 5 parameters", "NAME#2",
                            "optimize=False", "--tie exact"})
    EXPECT_TRUE(own.notes.find(words) != std::string::npos) << words + (": " + own.notes);

  Graph shared = mergedVectors(true);
  Outcome layers = run(shared);
  same("layers that share", layers, run(shared, Tie::Exact), 5);
  EXPECT_TRUE(layers.notes.find("layers share matrices too ('w')") != std::string::npos)
      << "shared: " + layers.notes;
}

// With metadata, equal parameters are told apart by their names, matrices too, and what
// is one parameter stays one; a folded matrix has its name again.
TEST(Exports, NamesInMetadata) {
  Graph g;
  g.floats("net.norm1.weight", {width}, 4, [](size_t) { return 0; });
  g.floats("val_7", {width, width}, 6);
  g.floats("net.Log", {width}, 5);
  g.floats("net.mask", {width}, 7);
  const char *norm = "net.norm1.weight";
  call(g.node("Mul", {"x", norm}, {"a"}), "aten.mul.Tensor", "%x, %p_net_norm1_weight",
       "['', 'net', 'net.norm1', 'mul']");
  call(g.node("MatMul", {"a", "val_7"}, {"b"}), "aten.linear.default", "%a, %p_net_up_weight",
       "['', 'net', 'net.up', 'linear']");
  call(g.node("Mul", {"b", norm}, {"c"}), "aten.mul.Tensor", "%b, %p_net_norm2_weight",
       "['', 'net', 'net.norm2', 'mul_1']");
  call(g.node("MatMul", {"c", "val_7"}, {"d"}), "aten.linear.default", "%c, %p_net_down_weight",
       "['', 'net', 'net.down', 'linear_1']");
  call(g.node("Mul", {"d", norm}, {"e"}), "aten.mul.Tensor", "%d, %p_net_norm1_weight",
       "['', 'net', 'net.norm1', 'mul_2']");
  // A tensor that the program trains is not folded; one that it does not train is no parameter.
  call(g.node("Exp", {"net.Log"}, {"l"}), "aten.exp.default", "%p_net_log", "['', 'net', 'exp']");
  g.node("Mul", {"e", "l"}, {"f"});
  call(g.node("Mul", {"f", "net.mask"}, {"h"}), "aten.mul.Tensor", "%f, %b_net_mask",
       "['', 'net', 'mul_3']");
  g.floats("head", {width, 6}, 3);
  g.node("MatMul", {"h", "head"}, {"logits"});
  Outcome out = run(g);
  same("names in metadata", out, run(g, Tie::Exact), 7);
  EXPECT_TRUE(out.constants == std::vector<std::string>{"net.mask"}) << "a buffer is a constant";
  EXPECT_TRUE((out.ownNames ==
               std::map<std::string, std::string>{{"net.norm1.weight#2", "net.norm2.weight"},
                                                  {"val_7", "^net.up.weight"},
                                                  {"val_7#2", "^net.down.weight"}}))
      << "own names";
}

// A matrix that a program uses beside parameters of its own in each layer is one.
TEST(Exports, SharedBesideOthers) {
  Graph g;
  g.floats("table.weight", {width, width}, 4);
  g.floats("l.0.weight", {width, width}, 5);
  g.floats("l.1.weight", {width, width}, 6);
  call(g.node("MatMul", {"table.weight", "l.0.weight"}, {"k"}), "aten.linear.default",
       "%alias, %p_l_0_weight", "['', 'l', 'l.0', 'linear']");
  call(g.node("MatMul", {"table.weight", "l.1.weight"}, {"m"}), "aten.linear.default",
       "%alias_1, %p_l_1_weight", "['', 'l', 'l.1', 'linear_1']");
  g.node("MatMul", {"x", "k"}, {"h"});
  g.node("MatMul", {"h", "m"}, {"y"});
  g.floats("head", {width, 6}, 3);
  g.node("MatMul", {"y", "head"}, {"logits"});
  Outcome out = run(g);
  same("a shared table", out, run(g, Tie::Exact), 5);
}

// The use that has the name of the tensor in the program has it here, though another one
// comes first; a name that two tensors would have is nobody's.
TEST(Exports, NamesOnce) {
  Graph g;
  g.floats("f.0.weight", {width}, 4, [](size_t) { return 0; });
  call(g.node("Mul", {"x", "f.0.weight"}, {"a"}), "aten.mul.Tensor", "%x, %p_ln_weight",
       "['', 'ln', 'mul']");
  call(g.node("Mul", {"a", "f.0.weight"}, {"b"}), "aten.mul.Tensor", "%a, %p_f_0_weight",
       "['', 'f', 'f.0', 'mul_1']");
  g.floats("head", {width, 6}, 3);
  g.node("MatMul", {"b", "head"}, {"logits"});
  Outcome out = run(g);
  same("the owner of a name", out, run(g, Tie::Exact), 4);
  EXPECT_TRUE(
      (out.names == std::vector<std::string>{"table", "f.0.weight#2", "f.0.weight", "head"} &&
       out.ownNames == std::map<std::string, std::string>{{"f.0.weight#2", "ln.weight"}}))
      << "the name is its owner's";

  Graph paths;
  paths.floats("onnx::MatMul_1", {width, width}, 4);
  paths.floats("onnx::MatMul_2", {width, width}, 5);
  paths.floats("onnx::MatMul_3", {width, width}, 6);
  paths.node("MatMul", {"x", "onnx::MatMul_1"}, {"a"}).set_name("/attn/MatMul");
  paths.node("MatMul", {"a", "onnx::MatMul_2"}, {"b"}).set_name("/attn/MatMul_1");
  paths.node("MatMul", {"b", "onnx::MatMul_3"}, {"c"}).set_name("/f/f.0/f.0.1/MatMul");
  paths.floats("head", {width, 6}, 3);
  paths.node("MatMul", {"c", "head"}, {"logits"});
  out = run(paths);
  EXPECT_TRUE(
      (out.states == 5 &&
       out.ownNames == std::map<std::string, std::string>{{"onnx::MatMul_3", "^f.0.1.weight"}}))
      << "a name for two is nobody's";
}

// Rows of a table of positions that the exporter looked up are trained; one row that is
// repeated, and a table that another op adds, are not.
TEST(Exports, FoldedLookups) {
  for (auto [arguments, rows, trained] :
       {std::tuple("%embedding, %embedding_1", true, true), std::tuple("%embedding, %mul", true, false),
        std::tuple("%embedding, %embedding_1", false, false)}) {
    Graph g;
    g.floats("positions", {1, 3, width}, 4, [rows = rows](size_t i) { return rows ? i : i % width; });
    call(g.node("Add", {"x", "positions"}, {"a"}), "aten.add.Tensor", arguments, "['', 'add']");
    g.floats("head", {width, 6}, 3);
    g.node("MatMul", {"a", "head"}, {"logits"});
    Outcome out = run(g);
    EXPECT_TRUE(out.message.empty() && out.constants.empty() == trained &&
                out.sources == 2 + trained)
        << std::string("positions added by ") + arguments + ": " + out.message;
  }
}

// Without dynamo, an Identity has the name of each further equal parameter, and what is
// used under one name is one. A node's path names a folded matrix.
TEST(Exports, NamesOfIdentities) {
  Graph g;
  g.model.set_producer_name("pytorch");
  g.floats("norm1.weight", {width}, 4, [](size_t) { return 0; });
  g.floats("onnx::MatMul_9", {width, width}, 6);
  g.node("Identity", {"norm1.weight"}, {"norm2.weight"});
  g.node("Mul", {"x", "norm1.weight"}, {"a"});
  g.node("MatMul", {"a", "onnx::MatMul_9"}, {"b"}).set_name("/net/layers.0/up/MatMul");
  g.node("Mul", {"b", "norm2.weight"}, {"c"});
  g.node("Mul", {"c", "norm1.weight"}, {"d"});
  g.floats("head", {width, 6}, 3);
  g.node("MatMul", {"d", "head"}, {"logits"});
  Outcome out = run(g);
  same("names of identities", out, run(g, Tie::Exact), 5);
  EXPECT_TRUE((out.names == std::vector<std::string>{"table", "norm1.weight", "onnx::MatMul_9",
                                                     "norm2.weight", "head"}))
      << "names by identity";
  EXPECT_TRUE((out.ownNames ==
               std::map<std::string, std::string>{{"onnx::MatMul_9", "^net.layers.0.up.weight"}}))
      << "a name by its path";
}

// A matrix that modules share has names that an exporter made up, and is one; what it writes as
// a node where a norm has no scale is no parameter.
TEST(Exports, MadeUpNames) {
  Graph g;
  g.model.set_producer_name("pytorch");
  g.floats("onnx::MatMul_9", {width, width}, 6);
  g.node("Identity", {"onnx::MatMul_9"}, {"onnx::MatMul_12"});
  auto &ones = g.node("Constant", {}, {"/norm/Constant_output_0"});
  auto &attribute = *ones.add_attribute();
  attribute.set_name("value");
  attribute.set_type(::onnx::AttributeProto::TENSOR);
  attribute.mutable_t()->set_data_type(::onnx::TensorProto::FLOAT);
  attribute.mutable_t()->add_dims(width);
  for (int i = 0; i < width; ++i)
    attribute.mutable_t()->add_float_data(1);
  g.node("LayerNormalization", {"x", "/norm/Constant_output_0"}, {"n"});
  g.node("MatMul", {"n", "onnx::MatMul_9"}, {"a"});
  g.node("MatMul", {"a", "onnx::MatMul_12"}, {"b"});
  g.floats("head", {width, 6}, 3);
  g.node("MatMul", {"b", "head"}, {"logits"});
  Outcome out = run(g);
  EXPECT_TRUE((out.names == std::vector<std::string>{"table", "onnx::MatMul_9", "head"} &&
               out.notes.empty()))
      << "made-up names: " + out.message + out.notes;
}

// One node that uses a vector twice, and parts of a vector, are one parameter.
TEST(Exports, VectorsOfOneUse) {
  Graph g;
  g.floats("bias", {2 * width}, 5);
  g.node("Split", {"bias"}, {"b0", "b1"});
  g.node("Add", {"x", "b0"}, {"y"});
  g.node("Add", {"y", "b1"}, {"z"});
  g.floats("head", {width, 6}, 3);
  g.node("MatMul", {"z", "head"}, {"logits"});
  Outcome out = run(g);
  EXPECT_TRUE(out.sources == 3 && out.states == 4 && out.notes.empty()) << "parts: " + out.notes;
}

} // namespace
