#include "lib/onnx/file/Strings.h"

#include "lib/onnx/file/HostTensor.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

using namespace llmc::onnximport;
using ::onnx::GraphProto;
using ::onnx::NodeProto;
using ::onnx::TensorProto;

using Stored = llvm::StringMap<const TensorProto *>;

static Stored stringsOf(const GraphProto &graph) {
  Stored out;
  for (const TensorProto &tensor : graph.initializer())
    if (tensor.data_type() == TensorProto::STRING)
      out[tensor.name()] = &tensor;
  for (const NodeProto &node : graph.node())
    if (node.op_type() == "Constant" && node.output_size() == 1)
      for (const auto &attribute : node.attribute())
        if (attribute.name() == "value" && attribute.t().data_type() == TensorProto::STRING)
          out[node.output(0)] = &attribute.t();
  return out;
}

// Turns an Equal into a Constant of its result; returns false, and leaves it alone, if the operands
// do not broadcast or have another number of strings than their shapes.
static bool foldEqual(NodeProto &node, const TensorProto &a, const TensorProto &b) {
  Shape left(a.dims().begin(), a.dims().end()), right(b.dims().begin(), b.dims().end());
  auto shape = broadcastShapes(left, right);
  auto held = [](const TensorProto &tensor, const Shape &own) {
    return countElements(own) == std::optional<int64_t>(tensor.string_data_size());
  };
  if (!shape || !held(a, left) || !held(b, right))
    return false;
  auto *value = new TensorProto;
  value->set_data_type(TensorProto::BOOL);
  for (int64_t size : *shape)
    value->add_dims(size);
  forEachElement(*shape, {broadcastStrides(left, *shape), broadcastStrides(right, *shape)},
                 [&](int64_t, llvm::ArrayRef<int64_t> at) {
                   value->add_int32_data(a.string_data(at[0]) == b.string_data(at[1]));
                 });
  node.set_op_type("Constant");
  node.clear_input();
  node.clear_attribute();
  auto *attribute = node.add_attribute();
  attribute->set_name("value");
  attribute->set_type(::onnx::AttributeProto::TENSOR);
  attribute->set_allocated_t(value);
  return true;
}

static void collectReads(const GraphProto &graph, llvm::StringSet<> &reads) {
  for (const NodeProto &node : graph.node()) {
    for (const std::string &name : node.input())
      reads.insert(name);
    for (const auto &attribute : node.attribute())
      if (attribute.has_g())
        collectReads(attribute.g(), reads);
  }
  for (const auto &output : graph.output())
    reads.insert(output.name());
}

void llmc::onnximport::foldStrings(::onnx::ModelProto &model) {
  GraphProto &graph = *model.mutable_graph();
  Stored strings = stringsOf(graph);
  if (strings.empty())
    return;
  for (NodeProto &node : *graph.mutable_node()) {
    if (node.op_type() != "Equal" || !node.domain().empty() || node.input_size() != 2)
      continue;
    auto a = strings.find(node.input(0)), b = strings.find(node.input(1));
    if (a != strings.end() && b != strings.end())
      foldEqual(node, *a->second, *b->second);
  }
  llvm::StringSet<> reads;
  collectReads(graph, reads);
  auto isLost = [&](const std::string &name) {
    return strings.count(name) && !reads.contains(name);
  };
  for (int i = graph.initializer_size(); i-- > 0;)
    if (isLost(graph.initializer(i).name()))
      graph.mutable_initializer()->DeleteSubrange(i, 1);
  for (int i = graph.node_size(); i-- > 0;)
    if (graph.node(i).output_size() == 1 && isLost(graph.node(i).output(0)))
      graph.mutable_node()->DeleteSubrange(i, 1);
}
