// Builds small ONNX models node by node.
#ifndef LLMC_TEST_IMPORT_GRAPHBUILDER_H
#define LLMC_TEST_IMPORT_GRAPHBUILDER_H

#include "Check.h"

#include "onnx-ml.pb.h"

#include <cmath>
#include <cstdlib>
#include <functional>

namespace llmc::test {

constexpr int64_t words = 5, width = 4;

// Represents a graph under construction: ids -> table -> x [batch, sequence, width].
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
    addFloats(graph, name, shape, seed, from);
  }
  static void addFloats(::onnx::GraphProto &graph, const std::string &name,
                        std::vector<int64_t> shape, double seed,
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
    return addNode(graph, op, inputs, outputs);
  }
  // Appends a node to a graph or a function.
  template <class Body>
  static ::onnx::NodeProto &addNode(Body &body, const char *op,
                                    std::initializer_list<const char *> inputs,
                                    std::initializer_list<const char *> outputs) {
    auto &n = *body.add_node();
    n.set_op_type(op);
    for (const char *input : inputs)
      n.add_input(input);
    for (const char *output : outputs)
      n.add_output(output);
    return n;
  }
  ::onnx::ValueInfoProto &input(const char *name, int type, std::vector<std::string> dims) {
    auto &input = *graph.add_input();
    input.set_name(name);
    auto &tensor = *input.mutable_type()->mutable_tensor_type();
    tensor.set_elem_type(type);
    tensor.mutable_shape();
    for (const std::string &dim : dims)
      if (char *end; !dim.empty()) {
        int64_t size = std::strtoll(dim.c_str(), &end, 10);
        auto &d = *tensor.mutable_shape()->add_dim();
        *end ? d.set_dim_param(dim) : d.set_dim_value(size);
      } else {
        tensor.mutable_shape()->add_dim();
      }
    return input;
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

// Records which call of an exported program a node was, as torch.onnx does.
void call(::onnx::NodeProto &node, const std::string &target, const std::string &arguments,
          const std::string &scopes);
// Marks the graph as a file that torch.onnx writes without dynamo.
void scripted(Graph &graph);

// Ends a graph: logits = (a * b + c) head.
void finishSum(Graph &graph);

struct Outcome {
  std::string message, notes;
  size_t states = 0, sources = 0;
  std::vector<std::string> constants;
  std::vector<std::string> names; // of the sources
  // Maps an unnamed source to its name in the program; "^" marks the transpose.
  std::map<std::string, std::string> ownNames;
  std::map<std::string, std::string> layouts; // source -> where a node reads it, if it has no name
  graph::Tensor logits;
  std::map<std::string, graph::Tensor> outputs; // of inference
};

// Imports for training with 2 rows of 3 tokens and evaluates.
Outcome run(Graph &graph, Tie tie = Tie::Auto);
Outcome run(const std::string &path, Tie tie = Tie::Auto);
// Imports for one run. Inputs that `values` lacks are 0, 1, 2, ... modulo the words.
Outcome infer(Graph &graph, const std::map<std::string, int64_t> &dims,
              const std::map<std::string, graph::Tensor> &values = {});
// Checks that logits have equal shape and elements, and that `states` states are made.
void same(const std::string &what, Graph &graph, const Outcome &expected, size_t states);
void same(const std::string &what, const Outcome &got, const Outcome &expected, size_t states,
          double limit = 1e-12);
// Checks that the import is refused with a message that has all the words.
void refuses(const std::string &what, const Outcome &got, std::initializer_list<const char *> all);

} // namespace llmc::test

#endif // LLMC_TEST_IMPORT_GRAPHBUILDER_H
