#include "lib/onnx/WireScan.h"

#include <cassert>
#include <string_view>

using namespace llmc::onnximport;
using llmc::support::error;
using llmc::support::Result;
using llmc::support::Status;

namespace {

// Field numbers of onnx-ml.proto.
enum : uint64_t {
  ModelGraph = 7,
  GraphNode = 1,
  GraphInitializer = 5,
  NodeAttribute = 5,
  AttributeTensor = 5,
  TensorFloatData = 4,
  TensorRawData = 9,
  TensorDoubleData = 10,
};
enum : uint64_t { Varint = 0, Fixed64 = 1, Bytes = 2, Fixed32 = 5 };

using Span = std::string_view;

struct Field {
  uint64_t number = 0, type = 0;
  Span whole;   // tag and payload
  Span payload; // Bytes only
};

class Scanner {
public:
  explicit Scanner(Span file) : base_(file.data()) {}

  ScannedFile result;

  Status model(Span in) {
    return rewrite(in, ModelGraph, result.skeleton,
                   [&](Span graph, std::string &out) { return this->graph(graph, out); });
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

  // Copies a message; sub-messages of field `number` go through `inner`.
  template <class Inner>
  Status rewrite(Span in, uint64_t number, std::string &out, Inner inner) {
    Field field;
    while (!in.empty()) {
      if (Status s = next(in, field); !s)
        return s;
      if (field.number != number || field.type != Bytes) {
        out.append(field.whole);
        continue;
      }
      std::string sub;
      if (Status s = inner(field.payload, sub); !s)
        return s;
      append(out, number << 3 | Bytes);
      append(out, sub.size());
      out += sub;
    }
    return llmc::support::ok();
  }

  // Leaves out the tensor's array where it is one contiguous piece.
  Status tensor(Span in, std::string &out, std::optional<ByteRange> &range) {
    Field field;
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
    return llmc::support::ok();
  }

  Status graph(Span in, std::string &out) {
    Field field;
    while (!in.empty()) {
      if (Status s = next(in, field); !s)
        return s;
      bool rewritten = field.type == Bytes &&
                       (field.number == GraphNode || field.number == GraphInitializer);
      if (!rewritten) {
        out.append(field.whole);
        continue;
      }
      std::string sub;
      Status s = field.number == GraphNode ? node(field.payload, sub)
                                           : initializer(field.payload, sub);
      if (!s)
        return s;
      append(out, field.number << 3 | Bytes);
      append(out, sub.size());
      out += sub;
    }
    return llmc::support::ok();
  }

  Status initializer(Span in, std::string &out) {
    return tensor(in, out, result.initializers.emplace_back());
  }

  size_t nodes_ = 0;
  Status node(Span in, std::string &out) {
    size_t index = nodes_++, attribute = 0;
    return rewrite(in, NodeAttribute, out, [&](Span text, std::string &sub) -> Status {
      std::optional<ByteRange> range;
      Status s = rewrite(text, AttributeTensor, sub, [&](Span t, std::string &inner) {
        return tensor(t, inner, range);
      });
      if (range)
        result.attributes[{index, attribute}] = *range;
      ++attribute;
      return s;
    });
  }
};

} // namespace

Result<ScannedFile> llmc::onnximport::scanWire(std::span<const std::byte> file) {
  Span text(reinterpret_cast<const char *>(file.data()), file.size());
  Scanner scanner(text);
  if (Status s = scanner.model(text); !s)
    return s.takeError();
  return std::move(scanner.result);
}
