#include "Unpack.h"

#include <google/protobuf/io/coded_stream.h>

#include <fstream>
#include <sstream>

using namespace llmc::test;
using llmc::support::error;
using llmc::support::Result;
using ::onnx::GraphProto;
using ::onnx::TensorProto;
using ::onnx::TypeProto;
using ::onnx::ValueInfoProto;
namespace fs = std::filesystem;

// Fields of a message whose type the build's proto file lacks (onnx-data.proto): the bytes of
// each that has number `wanted`.
static std::vector<std::string> fieldsOf(const std::string &bytes, int wanted) {
  google::protobuf::io::CodedInputStream in(reinterpret_cast<const uint8_t *>(bytes.data()),
                                            bytes.size());
  std::vector<std::string> out;
  while (uint32_t tag = in.ReadTag()) {
    uint64_t number;
    uint32_t size;
    std::string field;
    if ((tag & 7) == 0 && in.ReadVarint64(&number))
      continue;
    if ((tag & 7) != 2 || !in.ReadVarint32(&size) || !in.ReadString(&field, size))
      break;
    if (static_cast<int>(tag >> 3) == wanted)
      out.push_back(std::move(field));
  }
  return out;
}

Result<std::vector<TensorProto>> llmc::test::readBorder(const fs::path &file,
                                                        const TypeProto &type) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  std::vector<std::string> messages{text.str()};
  constexpr int kSequenceTensors = 3, kOptionalTensor = 3, kOptionalSequence = 5;
  const TypeProto *inner = &type;
  if (type.has_optional_type()) {
    inner = &type.optional_type().elem_type();
    messages =
        fieldsOf(messages[0], inner->has_sequence_type() ? kOptionalSequence : kOptionalTensor);
    if (messages.size() != 1)
      return error("optionals without a value");
  }
  if (inner->has_sequence_type() && inner->sequence_type().elem_type().has_tensor_type())
    messages = fieldsOf(messages[0], kSequenceTensors);
  else if (!inner->has_tensor_type())
    return error("maps, sequences of sequences");
  std::vector<TensorProto> out(messages.size());
  for (size_t i = 0; i < out.size(); ++i)
    if (!out[i].ParseFromString(messages[i]))
      return error(file.string(), " is no tensor");
  return out;
}

static void describe(ValueInfoProto &value, const TensorProto &tensor) {
  auto &type = *value.mutable_type()->mutable_tensor_type();
  type.set_elem_type(tensor.data_type());
  for (int64_t size : tensor.dims())
    type.mutable_shape()->add_dim()->set_dim_value(size);
}

static std::string part(const std::string &name, size_t i) {
  return name + "#" + std::to_string(i);
}

static void unpackInput(GraphProto &graph, const ValueInfoProto &value,
                        const std::vector<TensorProto> &parts, Unpacked &out) {
  auto *node = graph.add_node();
  node->set_op_type("SequenceConstruct");
  node->add_output(value.name());
  for (size_t i = 0; i < parts.size(); ++i) {
    auto *input = graph.add_input();
    input->set_name(part(value.name(), i));
    describe(*input, parts[i]);
    node->add_input(input->name());
    out.inputs.push_back(parts[i]);
  }
}

static void unpackOutput(GraphProto &graph, const ValueInfoProto &value,
                         const std::vector<TensorProto> &parts, Unpacked &out) {
  for (size_t i = 0; i < parts.size(); ++i) {
    auto *position = graph.add_initializer();
    position->set_name(part(value.name(), i) + " at");
    position->set_data_type(TensorProto::INT64);
    position->add_int64_data(static_cast<int64_t>(i));
    auto *node = graph.add_node();
    node->set_op_type("SequenceAt");
    node->add_input(value.name());
    node->add_input(position->name());
    auto *output = graph.add_output();
    output->set_name(part(value.name(), i));
    node->add_output(output->name());
    describe(*output, parts[i]);
    out.outputs.push_back(parts[i]);
  }
}

Result<Unpacked> llmc::test::unpack(GraphProto &graph, const fs::path &folder) {
  Unpacked out;
  auto inputs = graph.input(), outputs = graph.output();
  std::vector<std::vector<TensorProto>> given, expected;
  for (auto [values, kind, list] :
       {std::tuple(&inputs, "input_", &given), {&outputs, "output_", &expected}})
    for (int i = 0; i < values->size(); ++i) {
      auto parts = readBorder(folder / (kind + std::to_string(i) + ".pb"), values->Get(i).type());
      if (!parts)
        return parts.takeError();
      list->push_back(std::move(*parts));
    }
  graph.clear_input();
  graph.clear_output();
  for (int i = 0; i < inputs.size(); ++i) {
    const auto &value = inputs.Get(i);
    if (!value.type().has_tensor_type()) {
      unpackInput(graph, value, given[i], out);
    } else if (value.type().tensor_type().elem_type() == TensorProto::STRING) {
      *graph.add_initializer() = given[i][0];
      graph.mutable_initializer()->rbegin()->set_name(value.name());
      out.hasStrings = true;
    } else {
      *graph.add_input() = value;
      out.inputs.push_back(given[i][0]);
    }
  }
  for (int i = 0; i < outputs.size(); ++i) {
    if (!outputs.Get(i).type().has_tensor_type()) {
      unpackOutput(graph, outputs.Get(i), expected[i], out);
    } else {
      *graph.add_output() = outputs.Get(i);
      out.outputs.push_back(expected[i][0]);
    }
  }
  return out;
}
