#include "NodeCase.h"

#include "Unpack.h"

#include "lib/onnx/Import.h"
#include "lib/onnx/file/Node.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

using namespace llmc;
using namespace llmc::test;
using namespace llmc::onnximport;
using llmc::support::error;
using llmc::support::Result;
using llmc::support::Status;
namespace fs = std::filesystem;

namespace {

std::string bytesOf(const fs::path &path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

uint64_t rawBits(const std::string &raw, Element element, int64_t i) {
  int width = bitWidth(element);
  uint64_t bits = 0;
  if (width >= 8)
    std::memcpy(&bits, raw.data() + i * (width / 8), width / 8);
  else
    bits = static_cast<uint8_t>(raw[i * width / 8]) >> (i * width % 8);
  return bits;
}

Result<uint64_t> typedBits(const ::onnx::TensorProto &proto, Element element, int64_t i) {
  int width = bitWidth(element), packed = width < 8 ? 8 / width : 1;
  auto at = [&](const auto &list, int64_t k) -> Result<uint64_t> {
    if (k >= list.size())
      return error("a tensor has too few values");
    uint64_t bits = 0;
    auto value = list.Get(k);
    std::memcpy(&bits, &value, sizeof(value));
    return bits;
  };
  if (element == Element::F32)
    return at(proto.float_data(), i);
  if (element == Element::F64)
    return at(proto.double_data(), i);
  if (element == Element::I64)
    return at(proto.int64_data(), i);
  if (element == Element::U32 || element == Element::U64)
    return at(proto.uint64_data(), i);
  auto bits = at(proto.int32_data(), i / packed);
  return bits ? Result<uint64_t>(*bits >> (i % packed * width)) : bits;
}

Result<HostTensor> tensorOf(const ::onnx::TensorProto &proto) {
  auto element = elementOf(proto.data_type());
  if (!element)
    return error("tensors of ", elementName(proto.data_type()));
  HostTensor out(*element, Shape(proto.dims().begin(), proto.dims().end()));
  const std::string &raw = proto.raw_data();
  if (!raw.empty() && raw.size() < byteCount(*element, out.size()))
    return error("a tensor has too few bytes");
  for (int64_t i = 0, n = out.size(); i < n; ++i) {
    auto bits = raw.empty() ? typedBits(proto, *element, i) : rawBits(raw, *element, i);
    if (!bits)
      return bits.takeError();
    if (out.isFloat())
      out.floats[i] = floatOf(*element, *bits);
    else
      out.ints[i] = integerOf(*element, *bits);
  }
  return out;
}

void collect(const google::protobuf::RepeatedPtrField<::onnx::NodeProto> &nodes,
             std::set<std::string> &ops) {
  for (const auto &node : nodes) {
    ops.insert(node.op_type());
    for (const auto &attribute : node.attribute())
      if (attribute.has_g())
        collect(attribute.g().node(), ops);
  }
}

} // namespace

std::set<std::string> NodeCase::ops() const {
  std::set<std::string> out;
  collect(model.graph().node(), out);
  for (const auto &function : model.functions())
    collect(function.node(), out);
  return out;
}

// Makes an input a constant of the graph.
static void bake(NodeCase &test, int input) {
  auto *graph = test.model.mutable_graph();
  auto *initializer = graph->add_initializer();
  *initializer = test.stored[input];
  initializer->set_name(graph->input(input).name());
  graph->mutable_input()->DeleteSubrange(input, 1);
  test.inputs.erase(test.inputs.begin() + input);
  test.stored.erase(test.stored.begin() + input);
}

std::vector<std::string> NodeCase::unknownOps() const {
  std::set<std::string> defined, unknown;
  for (const auto &function : model.functions())
    defined.insert(function.domain() + "::" + function.name());
  auto visit = [&](const auto &self, const auto &nodes) -> void {
    for (const auto &node : nodes) {
      std::string op = Node(node, 0).qualifiedOp();
      bool isBranch = op == "If"; // that the importer takes apart
      if (!isKnownOp(op) && !isBranch && !defined.count(node.domain() + "::" + node.op_type()))
        unknown.insert(op);
      for (const auto &attribute : node.attribute())
        if (attribute.has_g())
          self(self, attribute.g().node());
    }
  };
  visit(visit, model.graph().node());
  for (const auto &function : model.functions())
    visit(visit, function.node());
  return {unknown.begin(), unknown.end()};
}

namespace {

// Values of the graph's inputs or outputs, in order.
using Reader = llvm::function_ref<Result<HostTensor>(int, ::onnx::TensorProto &)>;

Status readAll(int count, Reader read, std::vector<HostTensor> &list,
               std::vector<::onnx::TensorProto> *stored) {
  for (int i = 0; i < count; ++i) {
    ::onnx::TensorProto proto;
    auto tensor = read(i, proto);
    if (!tensor)
      return tensor.takeError();
    list.push_back(std::move(*tensor));
    if (stored)
      stored->push_back(std::move(proto));
  }
  return support::ok();
}

// As the suite keeps them: a file for each value beside the model.
Status readFolder(NodeCase &out, const fs::path &folder) {
  auto data = unpack(*out.model.mutable_graph(), folder / "test_data_set_0");
  if (!data)
    return data.takeError();
  out.hasStrings = data->hasStrings;
  auto from = [](const std::vector<::onnx::TensorProto> &list) {
    return [&list](int i, ::onnx::TensorProto &proto) {
      proto = list[i];
      return tensorOf(proto);
    };
  };
  auto inputs = from(data->inputs), outputs = from(data->outputs);
  if (Status s = readAll(data->inputs.size(), inputs, out.inputs, &out.stored); !s)
    return s;
  return readAll(data->outputs.size(), outputs, out.outputs, nullptr);
}

// One file: initializers "given:NAME" and "expected:NAME", which go.
Status readFile(NodeCase &out) {
  auto *graph = out.model.mutable_graph();
  std::map<std::string, ::onnx::TensorProto> data;
  for (int i = graph->initializer_size(); i-- > 0;)
    if (std::string name = graph->initializer(i).name(); name.find(':') != std::string::npos) {
      data[name] = graph->initializer(i);
      graph->mutable_initializer()->DeleteSubrange(i, 1);
    }
  auto named = [&](const char *kind, const auto &values) {
    return [&, kind](int i, ::onnx::TensorProto &proto) -> Result<HostTensor> {
      auto it = data.find(kind + values.Get(i).name());
      if (it == data.end())
        return error("there is no ", kind, values.Get(i).name());
      proto = it->second;
      return tensorOf(proto);
    };
  };
  auto inputs = named("given:", graph->input()), outputs = named("expected:", graph->output());
  if (Status s = readAll(graph->input_size(), inputs, out.inputs, &out.stored); !s)
    return s;
  return readAll(graph->output_size(), outputs, out.outputs, nullptr);
}

bool isFile(const fs::path &path) { return path.extension() == ".onnx"; }

} // namespace

static Status readData(NodeCase &out, const std::string &path) {
  auto graph = out.model.mutable_graph();
  if (graph->output_size() == 0)
    return error("the model cannot be read");
  if (Status s = isFile(path) ? readFile(out) : readFolder(out, path); !s)
    return s;
  // The declared shapes may be symbols; the data says what they are.
  for (int i = 0; i < graph->input_size(); ++i) {
    auto *type = graph->mutable_input(i)->mutable_type()->mutable_tensor_type();
    type->mutable_shape()->Clear();
    for (int64_t d : out.inputs[i].shape)
      type->mutable_shape()->add_dim()->set_dim_value(d);
  }
  // A tensor without elements is known: it needs no input.
  for (int i = graph->input_size(); i-- > 0;)
    if (out.inputs[i].size() == 0)
      bake(out, i);
  return support::ok();
}

ReadCase llmc::test::readCase(const std::string &path) {
  ReadCase out;
  out.test.name = fs::path(path).stem().string();
  out.test.model.ParseFromString(
      bytesOf(isFile(path) ? fs::path(path) : fs::path(path) / "model.onnx"));
  out.test.given = out.test.ops();
  if (Status s = readData(out.test, path); !s)
    out.problem = s.message();
  return out;
}

std::vector<std::string> llmc::test::casesIn(const std::string &root) {
  std::vector<std::string> out;
  std::error_code code;
  if (fs::exists(fs::path(root) / "model.onnx", code))
    out.push_back(root);
  else
    for (const auto &entry : fs::directory_iterator(root, code))
      if (entry.path().extension() == ".onnx" || fs::exists(entry.path() / "model.onnx", code))
        out.push_back(entry.path().string());
  llvm::sort(out);
  return out;
}

//===-- Operands that must be constants ---------------------------------------===//

namespace {

// Which operands of an op give its result a shape or a place.
const llvm::StringMap<std::set<int>> &shapeOperands() {
  static const llvm::StringMap<std::set<int>> table = {
      {"Reshape", {1}},       {"Slice", {1, 2, 3, 4}}, {"Expand", {1}},
      {"Tile", {1}},          {"Pad", {1, 3}},         {"Range", {0, 1, 2}},
      {"Squeeze", {1}},       {"Unsqueeze", {1}},      {"ConstantOfShape", {0}},
      {"Split", {1}},         {"CumSum", {1}},         {"CumProd", {1}},
      {"Trilu", {1}},         {"TopK", {1}},           {"OneHot", {1}},
      {"Dropout", {1, 2}},    {"CenterCropPad", {1}},  {"NonZero", {0}},
      {"Compress", {1}},      {"ReduceSum", {1}},      {"ReduceMean", {1}},
      {"ReduceMax", {1}},     {"ReduceMin", {1}},      {"ReduceProd", {1}},
      {"ReduceL1", {1}},      {"ReduceL2", {1}},       {"ReduceLogSum", {1}},
      {"ReduceLogSumExp", {1}}, {"ReduceSumSquare", {1}}, {"BlackmanWindow", {0}},
      {"HannWindow", {0}},    {"HammingWindow", {0}},  {"If", {0}},
      {"Resize", {1, 2, 3}},  {"Upsample", {1}},       {"Loop", {0, 1}},
      {"DFT", {1, 2}},        {"Col2Im", {1, 2}},      {"AffineGrid", {1}},
  };
  return table;
}

} // namespace

int llmc::test::bakeShapes(NodeCase &test) {
  auto *graph = test.model.mutable_graph();
  std::map<std::string, const ::onnx::NodeProto *> producer;
  // Names whose values a shape depends on, back to the graph's inputs.
  std::vector<std::string> open;
  std::set<std::string> needed;
  auto visit = [&](const auto &self, const auto &nodes) -> void {
    for (const auto &node : nodes) {
      for (const std::string &name : node.output())
        producer[name] = &node;
      if (auto it = shapeOperands().find(node.op_type()); it != shapeOperands().end())
        for (int i : it->second)
          if (i < node.input_size() && !node.input(i).empty())
            open.push_back(node.input(i));
      for (const auto &attribute : node.attribute())
        if (attribute.has_g())
          self(self, attribute.g().node());
    }
  };
  visit(visit, graph->node());
  while (!open.empty()) {
    std::string name = open.back();
    open.pop_back();
    if (!needed.insert(name).second)
      continue;
    // Only the shape of what Shape and Size look at matters.
    if (auto it = producer.find(name);
        it != producer.end() && it->second->op_type() != "Shape" && it->second->op_type() != "Size") {
      open.insert(open.end(), it->second->input().begin(), it->second->input().end());
      for (const auto &attribute : it->second->attribute()) // what its branches give
        for (const auto &output : attribute.g().output())
          open.push_back(output.name());
    }
  }
  int count = 0;
  for (int i = graph->input_size(); i-- > 0;) {
    if (!needed.count(graph->input(i).name()))
      continue;
    bake(test, i);
    ++count;
  }
  return count;
}

void llmc::test::bakeAll(NodeCase &test) {
  while (!test.inputs.empty())
    bake(test, test.inputs.size() - 1);
}
