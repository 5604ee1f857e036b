// One small model written in several ways: weights whole, split, sliced, shared
// and transposed mean the same, and become the states that they should.
#include "Check.h"

#include "onnx-ml.pb.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <unistd.h>

using namespace llmc;
using namespace llmc::test;
using namespace mlir;

namespace {

constexpr int64_t words = 5, width = 4;

// A graph in the making: ids -> table -> x [batch, sequence, width].
struct Graph {
  ::onnx::ModelProto model;
  ::onnx::GraphProto &graph = *model.mutable_graph();

  Graph() {
    model.set_ir_version(8);
    model.add_opset_import()->set_version(18);
    auto &ids = *graph.add_input();
    ids.set_name("ids");
    auto &type = *ids.mutable_type()->mutable_tensor_type();
    type.set_elem_type(::onnx::TensorProto::INT64);
    for (const char *dim : {"batch", "sequence"})
      type.mutable_shape()->add_dim()->set_dim_param(dim);
    graph.add_output()->set_name("logits");
    floats("table", {words, width}, 1);
    node("Gather", {"table", "ids"}, {"x"});
  }

  void floats(const std::string &name, std::vector<int64_t> shape, double seed,
              const std::function<size_t(size_t)> &from = nullptr) {
    auto &tensor = *graph.add_initializer();
    tensor.set_name(name);
    tensor.set_data_type(::onnx::TensorProto::FLOAT);
    size_t count = 1;
    for (int64_t d : shape) {
      tensor.add_dims(d);
      count *= d;
    }
    for (size_t i = 0; i < count; ++i) {
      float value = std::sin(seed * 100 + (from ? from(i) : i));
      tensor.mutable_raw_data()->append(reinterpret_cast<const char *>(&value), sizeof(value));
    }
  }
  void ints(const std::string &name, std::vector<int64_t> values) {
    auto &tensor = *graph.add_initializer();
    tensor.set_name(name);
    tensor.set_data_type(::onnx::TensorProto::INT64);
    tensor.add_dims(values.size());
    for (int64_t v : values)
      tensor.add_int64_data(v);
  }
  ::onnx::NodeProto &node(const char *op, std::initializer_list<const char *> inputs,
                          std::initializer_list<const char *> outputs) {
    auto &n = *graph.add_node();
    n.set_op_type(op);
    for (const char *input : inputs)
      n.add_input(input);
    for (const char *output : outputs)
      n.add_output(output);
    return n;
  }
  static void attribute(::onnx::NodeProto &n, const char *name, std::vector<int64_t> values,
                        bool list = false) {
    auto &a = *n.add_attribute();
    a.set_name(name);
    if (list)
      for (int64_t v : values)
        a.add_ints(v);
    else
      a.set_i(values[0]);
  }
};

struct Outcome {
  std::string message;
  size_t states = 0, sources = 0;
  std::vector<std::string> constants;
  graph::Tensor logits;
};

Outcome run(Graph &graph) {
  std::string path = (std::filesystem::temp_directory_path() /
                      ("llmc-small-" + std::to_string(::getpid()) + ".onnx"))
                         .string();
  std::ofstream(path, std::ios::binary) << graph.model.SerializeAsString();
  Outcome out;
  MLIRContext context;
  if (auto module = import(context, path, optionsFor(2, 3), out.message)) {
    out.states = count(*module, "graph.state");
    out.sources = count(*module, "graph.source");
    for (auto name : (*module)->getAttrOfType<ArrayAttr>("graph.constants"))
      out.constants.push_back(cast<StringAttr>(name).str());
    graph::Tensor ids({2, 3});
    ids.data = {0, 1, 2, 4, 3, 1};
    auto func = module->lookupSymbol<func::FuncOp>("forward");
    auto result = graph::evaluate(func, arguments(*module, ids));
    if (succeeded(result))
      out.logits = (*result)[0];
  }
  std::filesystem::remove(path);
  return out;
}

void same(const std::string &what, Graph &graph, const Outcome &expected, size_t states) {
  Outcome got = run(graph);
  if (!check(got.message.empty() && got.logits.shape == expected.logits.shape,
             what + ": " + got.message))
    return;
  double worst = 0;
  for (int64_t i = 0; i < got.logits.size(); ++i)
    worst = std::max(worst, std::fabs(got.logits.data[i] - expected.logits.data[i]));
  check(worst < 1e-12, what + ": logits differ by " + std::to_string(worst));
  check(got.states == states, what + ": " + std::to_string(got.states) + " states");
}

// The end that all variants share: logits = (a * b + c) head.
void finish(Graph &g) {
  g.node("Mul", {"a", "b"}, {"ab"});
  g.node("Add", {"ab", "c"}, {"sum"});
  g.floats("head", {width, 6}, 3);
  g.node("MatMul", {"sum", "head"}, {"logits"});
}

void testFused() {
  Graph whole;
  whole.floats("w", {width, 3 * width}, 2);
  whole.node("MatMul", {"x", "w"}, {"y"});
  Graph::attribute(whole.node("Split", {"y"}, {"a", "b", "c"}), "axis", {-1});
  finish(whole);
  Outcome expected = run(whole);
  check(expected.message.empty() && expected.states == 3, "fused: " + expected.message);

  Graph split;
  split.floats("w", {width, 3 * width}, 2);
  Graph::attribute(split.node("Split", {"w"}, {"wa", "wb", "wc"}), "axis", {1});
  for (auto [w, y] : {std::pair("wa", "a"), std::pair("wb", "b"), std::pair("wc", "c")})
    split.node("MatMul", {"x", w}, {y});
  finish(split);
  same("split weight", split, expected, 5);

  Graph transposed;
  transposed.floats("w", {3 * width, width}, 2, [](size_t i) {
    return i % width * 3 * width + i / width;
  });
  Graph::attribute(transposed.node("Transpose", {"w"}, {"wt"}), "perm", {1, 0}, true);
  transposed.node("MatMul", {"x", "wt"}, {"y"});
  Graph::attribute(transposed.node("Split", {"y"}, {"a", "b", "c"}), "axis", {-1});
  finish(transposed);
  same("transposed weight", transposed, expected, 3);

  Graph sliced;
  sliced.floats("w", {width, 3 * width}, 2);
  sliced.ints("axes", {1});
  for (int64_t i = 0; i < 3; ++i) {
    std::string n = std::to_string(i);
    sliced.ints("from" + n, {i * width});
    sliced.ints("to" + n, {(i + 1) * width});
    sliced.node("Slice", {"w", ("from" + n).c_str(), ("to" + n).c_str(), "axes"},
                {("w" + n).c_str()});
  }
  for (auto [w, y] : {std::pair("w0", "a"), std::pair("w1", "b"), std::pair("w2", "c")})
    sliced.node("MatMul", {"x", w}, {y});
  finish(sliced);
  same("sliced weight", sliced, expected, 5);
}

// Slices that leave a part out, or overlap, are taken from the whole parameter.
void testPartial() {
  Graph whole;
  whole.floats("w", {width, 3 * width}, 2);
  whole.node("MatMul", {"x", "w"}, {"y"});
  Graph::attribute(whole.node("Split", {"y"}, {"a", "b", "rest"}), "axis", {-1});
  whole.node("Identity", {"a"}, {"c"});
  finish(whole);
  Outcome expected = run(whole);

  Graph partial;
  partial.floats("w", {width, 3 * width}, 2);
  Graph::attribute(partial.node("Split", {"w"}, {"wa", "wb", "rest"}), "axis", {1});
  Graph::attribute(partial.node("Transpose", {"wa"}, {"wat"}), "perm", {1, 0}, true);
  Graph::attribute(partial.node("Transpose", {"wat"}, {"wa2"}), "perm", {1, 0}, true);
  partial.node("MatMul", {"x", "wa2"}, {"a"});
  partial.node("MatMul", {"x", "wb"}, {"b"});
  partial.node("MatMul", {"x", "wa"}, {"c"});
  finish(partial);
  same("two of three parts", partial, expected, 3);
}

// Roles: a vector that is added or multiplied is trained, a table of another
// shape that is added is not.
void testRoles() {
  Graph g;
  g.floats("bias", {width}, 4);
  g.floats("scale", {1, 1, width}, 5);
  g.floats("mask", {3, width}, 6);
  g.node("Mul", {"x", "scale"}, {"a"});
  g.node("Add", {"a", "bias"}, {"b"});
  g.node("Add", {"b", "mask"}, {"c"});
  g.floats("head", {width, 6}, 3);
  g.node("MatMul", {"c", "head"}, {"logits"});
  Outcome out = run(g);
  check(out.message.empty() && out.states == 4 && out.sources == 4, "roles: " + out.message);
  check(out.constants == std::vector<std::string>{"mask"}, "the mask is a constant");
}

void testStorage() {
  Graph g;
  g.floats("head", {width, 6}, 3);
  auto &table = *g.graph.mutable_initializer(0);
  std::string raw = table.raw_data();
  table.clear_raw_data();
  for (size_t i = 0; i < raw.size() / sizeof(float); ++i)
    table.add_float_data(reinterpret_cast<const float *>(raw.data())[i]);
  g.node("MatMul", {"x", "head"}, {"logits"});
  Graph plain;
  plain.floats("head", {width, 6}, 3);
  plain.node("MatMul", {"x", "head"}, {"logits"});
  same("packed float_data", g, run(plain), 2);
}

} // namespace

void test::testSmallGraphs() {
  testFused();
  testPartial();
  testRoles();
  testStorage();
}
