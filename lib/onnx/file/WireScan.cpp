#include "lib/onnx/file/WireScan.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <optional>

using namespace llmc::onnximport;
using llmc::support::error;
using llmc::support::Result;
using llmc::support::Status;

namespace {

enum : uint64_t { Varint = 0, Fixed64 = 1, Bytes = 2, Fixed32 = 5 };

// Identifies the messages on the way to a tensor.
enum class Message { Model, Graph, Function, Node, Attribute, Tensor };

struct Step {
  Message from;
  uint64_t field; // of onnx-ml.proto
  Message to;
};
constexpr Step kSteps[] = {
    {Message::Model, 7, Message::Graph},          // graph
    {Message::Model, 25, Message::Function},      // functions
    {Message::Graph, 1, Message::Node},           // node
    {Message::Graph, 5, Message::Tensor},         // initializer
    {Message::Function, 7, Message::Node},        // node
    {Message::Function, 11, Message::Attribute},  // attribute_proto
    {Message::Node, 5, Message::Attribute},       // attribute
    {Message::Attribute, 5, Message::Tensor},     // t
    {Message::Attribute, 6, Message::Graph},      // g
    {Message::Attribute, 10, Message::Tensor},    // tensors
    {Message::Attribute, 11, Message::Graph},     // graphs
};
enum : uint64_t { TensorFloatData = 4, TensorRawData = 9, TensorDoubleData = 10 };

// Limits the nesting of messages, three for each subgraph; protobuf itself stops at 100.
constexpr int kDeepest = 96;

using Span = std::string_view;

struct Field {
  uint64_t number = 0, type = 0;
  Span whole;   // tag and payload
  Span payload; // Bytes only
};

class Scanner {
public:
  explicit Scanner(Span file) : base_(file.data()) {}

  // Appends a message to `out` without the elements of its tensors.
  Status copy(Message message, Span in, std::string &out, int depth = 0) {
    if (message == Message::Tensor)
      return tensor(in, out);
    if (depth > kDeepest)
      return malformed(in.data(), "graphs nested too deep");
    Field field;
    while (!in.empty()) {
      if (Status s = next(in, field); !s)
        return s;
      const Step *step = field.type == Bytes ? findStep(message, field.number) : nullptr;
      if (!step) {
        out.append(field.whole);
        continue;
      }
      std::string sub;
      if (Status s = copy(step->to, field.payload, sub, depth + 1); !s)
        return s;
      append(out, field.number << 3 | Bytes);
      append(out, sub.size());
      out += sub;
    }
    return llmc::support::ok();
  }

private:
  const char *base_;

  llmc::support::Error malformed(const char *at, const char *what) {
    return error("not a readable ONNX file: ", what, " at byte ", at - base_);
  }

  bool varint(Span &in, uint64_t &value) {
    value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      if (in.empty())
        return false;
      uint8_t byte = static_cast<uint8_t>(in.front());
      in.remove_prefix(1);
      value |= uint64_t(byte & 0x7f) << shift;
      if (!(byte & 0x80))
        return true;
    }
    return false;
  }

  Status next(Span &in, Field &field) {
    Span start = in;
    uint64_t tag = 0, length = 0;
    if (!varint(in, tag) || (tag >> 3) == 0 || (tag >> 3) > (1u << 29))
      return malformed(start.data(), "a broken field tag");
    field.number = tag >> 3;
    field.type = tag & 7;
    field.payload = {};
    if (field.type == Varint) {
      if (!varint(in, length))
        return malformed(start.data(), "a broken number");
      length = 0;
    } else if (field.type == Fixed64) {
      length = 8;
    } else if (field.type == Fixed32) {
      length = 4;
    } else if (field.type == Bytes) {
      if (!varint(in, length))
        return malformed(start.data(), "a broken length");
    } else {
      return malformed(start.data(), "an unknown kind of field");
    }
    if (length > in.size())
      return malformed(start.data(), "a field that ends after the file (truncated?)");
    if (field.type == Bytes)
      field.payload = in.substr(0, length);
    in.remove_prefix(length);
    field.whole = start.substr(0, start.size() - in.size());
    return llmc::support::ok();
  }

  static void append(std::string &out, uint64_t value) {
    for (; value >= 0x80; value >>= 7)
      out.push_back(static_cast<char>(value | 0x80));
    out.push_back(static_cast<char>(value));
  }

  static const Step *findStep(Message from, uint64_t field) {
    for (const Step &step : kSteps)
      if (step.from == from && step.field == field)
        return &step;
    return nullptr;
  }

  // Appends a tensor to `out`, with the range of its array as raw_data if that is contiguous.
  Status tensor(Span in, std::string &out) {
    Field field;
    std::optional<ByteRange> range;
    while (!in.empty()) {
      if (Status s = next(in, field); !s)
        return s;
      bool bulk = field.type == Bytes &&
                  (field.number == TensorRawData || field.number == TensorFloatData ||
                   field.number == TensorDoubleData);
      if (!bulk) {
        out.append(field.whole);
        continue;
      }
      if (range && !field.payload.empty() && range->size)
        return malformed(field.whole.data(), "a tensor whose values come in several pieces");
      if (!range || !field.payload.empty())
        range = {static_cast<uint64_t>(field.payload.data() - base_), field.payload.size()};
    }
    if (!range)
      return llmc::support::ok();
    append(out, TensorRawData << 3 | Bytes);
    append(out, sizeof *range);
    out.append(reinterpret_cast<const char *>(&*range), sizeof *range);
    return llmc::support::ok();
  }
};

} // namespace

Result<ScannedFile> llmc::onnximport::scanWire(std::span<const std::byte> file) {
  Span text(reinterpret_cast<const char *>(file.data()), file.size());
  ScannedFile out;
  if (Status s = Scanner(text).copy(Message::Model, text, out.skeleton); !s)
    return s.takeError();
  return std::move(out);
}

ByteRange llmc::onnximport::rangeFromSkeleton(std::string_view rawData) {
  ByteRange place;
  assert(rawData.size() == sizeof place);
  std::memcpy(&place, rawData.data(), std::min(rawData.size(), sizeof place));
  return place;
}
