#include "NodeCase.h"

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

Result<HostTensor> readTensor(const fs::path &path, ::onnx::TensorProto &proto) {
  if (!proto.ParseFromString(bytesOf(path)))
    return error(path.string(), " is no tensor");
  return tensorOf(proto);
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

std::set<std::string> llmc::test::opsOf(const std::string &path) {
  NodeCase test;
  test.model.ParseFromString(bytesOf(fs::path(path) / "model.onnx"));
  return test.ops();
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
  auto file = [&](const char *kind) {
    return [=](int i, ::onnx::TensorProto &proto) {
      return readTensor(folder / "test_data_set_0" / (kind + std::to_string(i) + ".pb"), proto);
    };
  };
  auto inputs = file("input_"), outputs = file("output_");
  const auto &graph = out.model.graph();
  if (Status s = readAll(graph.input_size(), inputs, out.inputs, &out.stored); !s)
    return s;
  return readAll(graph.output_size(), outputs, out.outputs, nullptr);
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

Result<NodeCase> llmc::test::readCase(const std::string &path) {
  NodeCase out;
  out.name = fs::path(path).stem().string();
  out.model.ParseFromString(bytesOf(isFile(path) ? fs::path(path) : fs::path(path) / "model.onnx"));
  auto graph = out.model.mutable_graph();
  auto tensorsOnly = [](const auto &values) {
    return llvm::all_of(values, [](const auto &v) { return v.type().has_tensor_type(); });
  };
  if (!tensorsOnly(graph->input()) || !tensorsOnly(graph->output()))
    return error("sequences, optionals and maps");
  if (graph->output_size() == 0)
    return error("the model cannot be read");
  if (Status s = isFile(path) ? readFile(out) : readFolder(out, path); !s)
    return s.takeError();
  // The declared shapes may be symbols; the data says what they are.
  for (int i = 0; i < graph->input_size(); ++i) {
    auto *type = graph->mutable_input(i)->mutable_type()->mutable_tensor_type();
    type->mutable_shape()->Clear();
    for (int64_t d : out.inputs[i].shape)
      type->mutable_shape()->add_dim()->set_dim_value(d);
  }
  // What has no elements is known: it needs no input.
  for (int i = graph->input_size(); i-- > 0;)
    if (out.inputs[i].size() == 0)
      bake(out, i);
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
  for (const auto &node : graph->node())
    for (const std::string &name : node.output())
      producer[name] = &node;
  // Names whose values a shape depends on, back to the graph's inputs.
  std::vector<std::string> open;
  std::set<std::string> needed;
  for (const auto &node : graph->node())
    if (auto it = shapeOperands().find(node.op_type()); it != shapeOperands().end())
      for (int i : it->second)
        if (i < node.input_size() && !node.input(i).empty())
          open.push_back(node.input(i));
  while (!open.empty()) {
    std::string name = open.back();
    open.pop_back();
    if (!needed.insert(name).second)
      continue;
    // Only the shape of what Shape and Size look at matters.
    if (auto it = producer.find(name);
        it != producer.end() && it->second->op_type() != "Shape" && it->second->op_type() != "Size")
      open.insert(open.end(), it->second->input().begin(), it->second->input().end());
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
