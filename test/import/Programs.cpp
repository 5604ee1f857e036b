// Tests what the importer reads of the program that torch.export records in a file: operands that
// norms lack, numbers that are parameters, and parameters that the file has lost.
#include "GraphBuilder.h"

#include "llvm/ADT/StringExtras.h"

using namespace llmc;
using namespace llmc::test;

namespace {

void fill(Graph &g, const std::string &name, std::vector<int64_t> shape, float value) {
  g.floats(name, shape, 0);
  std::string &raw =
      *g.graph.mutable_initializer(g.graph.initializer_size() - 1)->mutable_raw_data();
  for (size_t i = 0; i < raw.size() / sizeof(float); ++i)
    reinterpret_cast<float *>(raw.data())[i] = value;
}

// logits = y head.
Outcome ended(Graph &g) {
  g.floats("head", {width, 6}, 3);
  g.node("MatMul", {"y", "head"}, {"logits"});
  return run(g);
}

bool trains(const Outcome &out, const std::string &name) {
  return llvm::is_contained(out.names, name);
}

// A norm without a scale has a tensor of ones, which may be that of another norm's scale; so
// with a bias of zeros. One that was fused with a product has another tensor, and learns it.
TEST(Programs, NormsWithoutParameters) {
  for (bool fused : {false, true}) {
    Graph g;
    fill(g, "last.weight", {width}, 1);
    fill(g, "zeros", {width}, 0);
    g.floats("val_3", {width}, 5);
    auto norm = [&](const char *x, const char *scale, const char *y, const std::string &arguments) {
      auto &node = g.node("LayerNormalization", {x, scale, "zeros"}, {y});
      call(node, "aten.layer_norm.default", "%x, [4], " + arguments + ", 1e-05, False",
           "['', '" + std::string(y) + "', 'layer_norm']");
    };
    norm("x", "last.weight", "a", "None, None");
    norm("a", fused ? "val_3" : "last.weight", "b", "None, None");
    norm("b", "last.weight", "y", "%p_last_weight, %p_last_bias");
    Outcome out = ended(g);
    same("norms without parameters", out, out, fused ? 5 : 4);
    EXPECT_TRUE(trains(out, "last.weight") && trains(out, "zeros") &&
                trains(out, "val_3") == fused && !trains(out, "last.weight#2") &&
                !trains(out, "zeros#2"))
        << "the last norm alone has a scale and a bias: " + out.notes;
  }
}

// A slope is a parameter of each node; a number of another call is one where the call reads one
// parameter besides a value.
TEST(Programs, Slopes) {
  for (bool metadata : {false, true}) {
    Graph g;
    g.floats("val_2", {1, 1, 1}, 4);
    g.floats("val_3", {}, 5);
    auto &first = g.node("PRelu", {"x", "val_2"}, {"a"});
    auto &second = g.node("PRelu", {"a", "val_2"}, {"b"});
    auto &scaled = g.node("Mul", {"b", "val_3"}, {"c"});
    auto &last = g.node("Add", {"c", "val_3"}, {"y"});
    if (metadata) {
      call(first, "aten.prelu.default", "%x, %p_one_weight", "['', 'one', 'prelu']");
      call(second, "aten.prelu.default", "%a, %p_two_weight", "['', 'two', 'prelu_1']");
      call(scaled, "aten.mul.Tensor", "%b, %p_gain", "['', 'mul']");
      call(last, "aten.layer_norm.default", "%c, [4], %p_norm_weight", "['', 'norm', 'add']");
    }
    Outcome out = ended(g);
    same("slopes", out, out, metadata ? 5 : 4);
    EXPECT_TRUE(trains(out, "val_2") && trains(out, "val_2#2") && trains(out, "val_3") == metadata)
        << "slopes and numbers: " + out.message + llvm::join(out.names, " ") + out.notes;
  }
}

void sign(Graph &g, const std::string &text) {
  auto &entry = *g.graph.add_metadata_props();
  entry.set_key("pkg.torch.export.ExportedProgram.graph_signature");
  entry.set_value(text);
}

// Checks that each parameter that the file lists and no longer holds is noted, but none that it
// holds in another form or under another name.
TEST(Programs, LostParameters) {
  std::string lines = "\n# inputs\n", specs = "ExportGraphSignature(input_specs=[";
  for (const char *name : {"table", "gain", "up.weight", "up.bias", "turned.weight", "tied.weight",
                           "outer.bias", "outer.inner.bias", "head", "gone.slopes"}) {
    std::string mangled = name;
    std::replace(mangled.begin(), mangled.end(), '.', '_');
    lines += "p_" + mangled + ": PARAMETER target='" + name + "'\n";
    specs += "InputSpec(kind=<InputKind.PARAMETER: 2>, arg=TensorArgument(name='p_" + mangled +
             "'), target='" + name + "', persistent=None), ";
  }
  lines += "b_angles: BUFFER target='angles' persistent=False\ninput_ids: USER_INPUT\n";
  specs += "InputSpec(kind=<InputKind.BUFFER: 3>, arg=TensorArgument(name='b_angles'), "
           "target='angles', persistent=False)], output_specs=[])";
  for (const std::string &text : {lines, specs}) {
    Graph g;
    sign(g, text);
    auto scattered = [](size_t i) { return i * i * 7 + i % 3; };
    g.floats("val_1", {width, width}, 4, scattered);
    g.floats("val_2", {width, width}, 5, scattered);
    g.floats("angles", {width}, 6, scattered);
    g.floats("gain", {width}, 7, scattered);
    call(g.node("MatMul", {"x", "val_1"}, {"a"}), "aten.linear.default",
         "%x, %p_up_weight, %p_up_bias", "['', 'up', 'linear']");
    call(g.node("MatMul", {"a", "val_2"}, {"b"}), "aten.matmul.default", "%a, %t",
         "['', 'turned', 'matmul']");
    call(g.node("Mul", {"b", "gain"}, {"c"}), "aten.mul.Tensor", "%b, %p_gain",
         "['', 'tied', 'mul']");
    g.floats("outer.inner.bias", {width}, 8, scattered);
    call(g.node("Add", {"c", "outer.inner.bias"}, {"d"}), "aten.linear.default",
         "%c, %p_outer_inner_bias", "['', 'outer.inner', 'linear_1']");
    call(g.node("Add", {"d", "angles"}, {"y"}), "aten.add.Tensor", "%d, %b_angles", "['', 'add']");
    Outcome out = ended(g);
    EXPECT_TRUE(out.message.empty() && !trains(out, "angles") &&
                out.notes.find("1 parameter of the program is not trained: 'gone.slopes'; the "
                               "exporter folded it into constants or merged equal nodes") !=
                    std::string::npos)
        << "lost parameters: " + out.message + out.notes;
    EXPECT_TRUE((out.ownNames == std::map<std::string, std::string>{{"val_1", "^up.weight"}}))
        << "a name of the program";
  }
}

// Checks that tensors that the exporter computed from parameters are trained in their place, with
// a note: 1 - mix, and a head that joins two tables. A transposed weight remains that weight.
TEST(Programs, MadeParameters) {
  Graph g;
  sign(g, "\np_mix: PARAMETER target='mix'\np_turned_weight: PARAMETER target='turned.weight'\n"
          "p_one: PARAMETER target='one'\np_two: PARAMETER target='two'\n");
  auto scattered = [](size_t i) { return i * i * 7 + i % 3; };
  for (auto [name, seed] : {std::pair("mix", 4), std::pair("sub", 5), std::pair("view", 9)})
    g.floats(name, {width}, seed, scattered);
  for (auto [name, seed] : {std::pair("val_3", 6), std::pair("t_1", 7)})
    g.floats(name, {width, width}, seed, scattered);
  call(g.node("Mul", {"x", "mix"}, {"a"}), "aten.mul.Tensor", "%x, %p_mix", "['', 'mul']");
  call(g.node("Mul", {"a", "sub"}, {"b"}), "aten.mul.Tensor", "%a, %sub", "['', 'mul_1']");
  call(g.node("Mul", {"b", "view"}, {"c"}), "aten.mul.Tensor", "%b, %view", "['', 'mul_2']");
  call(g.node("MatMul", {"c", "val_3"}, {"d"}), "aten.matmul.default", "%c, %t",
       "['', 'turned', 'matmul']");
  call(g.node("MatMul", {"d", "t_1"}, {"y"}), "aten.matmul.default", "%d, %t_1",
       "['', 'matmul_1']");
  Outcome out = ended(g);
  EXPECT_TRUE(
      out.notes.find("2 tensors that the exporter computed from parameters are trained in their "
                     "place: 'sub', 't_1'; ") != std::string::npos)
      << "made parameters: " + out.message + out.notes;
}

// A product of constants with what its call names is computed in every step.
TEST(Programs, ProductOfConstants) {
  Graph g;
  auto scattered = [](size_t i) { return i * i * 7 + i % 3; };
  g.ints("positions", {0, 1, 2});
  g.ints("column", {3, 1});
  g.floats("val_8", {1, width}, 5, scattered);
  Graph::attribute(g.node("Cast", {"positions"}, {"at"}), "to", {::onnx::TensorProto::FLOAT});
  g.node("Reshape", {"at", "column"}, {"rows"});
  call(g.node("MatMul", {"rows", "val_8"}, {"a"}), "aten.linear.default",
       "%positions, %p_up_weight", "['', 'up', 'linear']");
  g.node("Add", {"x", "a"}, {"y"});
  Outcome out = ended(g);
  EXPECT_TRUE(out.message.empty() && out.states == 3 && trains(out, "val_8"))
      << "a product of constants: " + out.message + llvm::join(out.names, " ") + out.notes;
}

} // namespace
