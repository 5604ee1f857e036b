// Parses the protobuf wire format of ONNX and the JSON header of safetensors.
#include "lib/verify/source/FileTensors.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>

namespace llmc::verify {

using support::error;

namespace {

// Iterates over the fields of one message of the protobuf wire format.
class Wire {
public:
  // Reads `bytes`, whose first byte is at offset `base` of the file.
  Wire(std::string_view bytes, uint64_t base) : bytes(bytes), base(base) {}

  // Advances to the next field; returns false at the end, or if the bytes are malformed.
  bool next() {
    uint64_t key = 0;
    if (at >= bytes.size() || !varint(key))
      return false;
    number = static_cast<uint32_t>(key >> 3);
    switch (key & 7) {
    case 0:
      return varint(value);
    case 1:
      return skip(8);
    case 2: {
      uint64_t size = 0;
      if (!varint(size) || size > bytes.size() - at)
        return false;
      text = bytes.substr(at, size);
      place = base + at;
      at += size;
      return true;
    }
    case 5:
      return skip(4);
    default:
      return false;
    }
  }
  // Returns the contents of the field, a message or a packed list of numbers.
  Wire message() const { return Wire(text, place); }
  bool varint(uint64_t &to) {
    to = 0;
    for (unsigned shift = 0; shift < 64 && at < bytes.size(); shift += 7) {
      auto byte = static_cast<unsigned char>(bytes[at++]);
      to |= uint64_t(byte & 127) << shift;
      if (byte < 128)
        return true;
    }
    return false;
  }

  uint32_t number = 0;   // number of the field
  uint64_t value = 0;    // value of a varint field
  std::string_view text; // bytes of a length-delimited field
  uint64_t place = 0;    // offset of `text` in the file

private:
  bool skip(size_t size) {
    if (size > bytes.size() - at)
      return false;
    at += size;
    return true;
  }
  std::string_view bytes;
  uint64_t base;
  size_t at = 0;
};

FileType onnxType(uint64_t code) {
  return code == 1    ? FileType::F32
         : code == 11 ? FileType::F64
         : code == 10 ? FileType::F16
         : code == 16 ? FileType::BF16
                      : FileType::Other;
}

// Reads a TensorProto. Returns false if its elements are not one byte array in a file.
bool readTensor(Wire wire, const std::string &path, FileTensor &tensor) {
  bool placed = false;
  tensor.path = path;
  while (wire.next()) {
    switch (wire.number) {
    case 1: // one dim, or a packed list of all
      if (wire.text.empty()) {
        tensor.shape.push_back(static_cast<int64_t>(wire.value));
      } else {
        Wire list = wire.message();
        for (uint64_t dim = 0; list.varint(dim);)
          tensor.shape.push_back(static_cast<int64_t>(dim));
      }
      break;
    case 2:
      tensor.type = onnxType(wire.value);
      break;
    case 8:
      tensor.name = wire.text;
      break;
    case 9:
      tensor.offset = wire.place;
      placed = true;
      break;
    case 13: {
      std::string key, value;
      for (Wire pair = wire.message(); pair.next();)
        (pair.number == 1 ? key : value) = pair.text;
      if (key == "location") {
        tensor.path = (std::filesystem::path(path).parent_path() / value).string();
        placed = true;
      } else if (key == "offset") {
        const char *end = value.data() + value.size();
        auto [stop, problem] = std::from_chars(value.data(), end, tensor.offset);
        if (problem != std::errc() || stop != end)
          return false;
      }
      break;
    }
    default:
      break;
    }
    wire.text = {};
  }
  return placed;
}

void readNode(Wire wire, const std::string &path, FileModel &model) {
  FileNode node;
  while (wire.next()) {
    if (wire.number == 1)
      node.inputs.emplace_back(wire.text);
    else if (wire.number == 2)
      node.outputs.emplace_back(wire.text);
    else if (wire.number == 3)
      node.name = wire.text;
    else if (wire.number == 4)
      node.op = wire.text;
    else if (wire.number == 5) {
      std::string name;
      for (Wire attribute = wire.message(); attribute.next();) {
        FileTensor tensor;
        if (attribute.number == 1)
          name = attribute.text;
        else if (attribute.number == 3)
          node.numbers[name] = static_cast<int64_t>(attribute.value);
        else if (attribute.number == 5 && readTensor(attribute.message(), path, tensor) &&
                 !node.outputs.empty()) {
          tensor.name = node.outputs.front();
          model.tensors.push_back(std::move(tensor));
        }
      }
    }
  }
  model.nodes.push_back(std::move(node));
}

void readOnnx(std::string_view bytes, const std::string &path, FileModel &model) {
  for (Wire top(bytes, 0); top.next();) {
    if (top.number != 7) // the graph
      continue;
    for (Wire graph = top.message(); graph.next();) {
      FileTensor tensor;
      if (graph.number == 5 && readTensor(graph.message(), path, tensor))
        model.tensors.push_back(std::move(tensor));
      else if (graph.number == 1)
        readNode(graph.message(), path, model);
    }
  }
}

// Returns whether an entry of a safetensors header has fields of the right types.
bool isTensor(const nlohmann::json &entry) {
  auto sizes = [&](const char *name) {
    return entry.contains(name) && entry[name].is_array() &&
           std::all_of(entry[name].begin(), entry[name].end(),
                       [](const auto &size) { return size.is_number_unsigned(); });
  };
  return sizes("data_offsets") && entry["data_offsets"].size() == 2 && sizes("shape") &&
         entry.contains("dtype") && entry["dtype"].is_string();
}

support::Status readSafetensors(std::ifstream &file, const std::string &path, FileModel &model) {
  uint64_t size = 0;
  file.read(reinterpret_cast<char *>(&size), 8);
  if (!file || size > std::filesystem::file_size(path))
    return error("'", path, "' has no header");
  std::string text(size, ' ');
  file.read(text.data(), static_cast<std::streamsize>(size));
  nlohmann::json header = nlohmann::json::parse(text, nullptr, false);
  if (!header.is_object())
    return error("'", path, "' has a header that is no JSON object");
  for (const auto &[name, entry] : header.items()) {
    if (name == "__metadata__")
      continue;
    if (!isTensor(entry))
      return error("'", path, "': tensor '", name, "' needs dtype, shape and data_offsets");
    FileTensor tensor;
    tensor.name = name;
    tensor.path = path;
    tensor.offset = 8 + size + entry["data_offsets"][0].get<uint64_t>();
    tensor.shape = entry["shape"].get<std::vector<int64_t>>();
    std::string type = entry["dtype"].get<std::string>();
    tensor.type = type == "F32"    ? FileType::F32
                  : type == "F64"  ? FileType::F64
                  : type == "F16"  ? FileType::F16
                  : type == "BF16" ? FileType::BF16
                                   : FileType::Other;
    model.tensors.push_back(std::move(tensor));
  }
  return support::ok();
}

double halfToDouble(uint16_t bits) {
  int exponent = bits >> 10 & 31, fraction = bits & 1023;
  double value = exponent == 31  ? (fraction ? NAN : INFINITY)
                 : exponent == 0 ? std::ldexp(fraction, -24)
                                 : std::ldexp(1024 + fraction, exponent - 25);
  return bits & 0x8000 ? -value : value;
}

template <class T> T at(const std::string &bytes, size_t i) {
  T value;
  std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
  return value;
}

} // namespace

int64_t FileTensor::count() const {
  int64_t n = 1;
  for (int64_t dim : shape)
    n *= dim;
  return n;
}

const FileTensor *FileModel::find(const std::string &name) const {
  for (const FileTensor &tensor : tensors)
    if (tensor.name == name)
      return &tensor;
  return nullptr;
}

const FileTensor *FileModel::at(const std::string &path, uint64_t offset) const {
  std::error_code code;
  for (const FileTensor &tensor : tensors)
    if (tensor.offset == offset && std::filesystem::equivalent(tensor.path, path, code))
      return &tensor;
  return nullptr;
}

support::Status addFile(const std::string &path, FileModel &model) {
  std::ifstream file(path, std::ios::binary);
  if (!file)
    return error("cannot read '", path, "'");
  std::string kind = std::filesystem::path(path).extension().string();
  if (kind == ".safetensors")
    return readSafetensors(file, path, model);
  if (kind != ".onnx")
    return support::ok();
  std::string bytes(std::filesystem::file_size(path), ' ');
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  readOnnx(bytes, path, model);
  return support::ok();
}

support::Result<std::vector<double>> readElements(const FileTensor &tensor, int64_t first,
                                                  int64_t count) {
  static constexpr int64_t sizes[] = {4, 8, 2, 2, 0};
  int64_t size = sizes[static_cast<int>(tensor.type)];
  std::string bytes(static_cast<size_t>(count * size), ' ');
  std::ifstream file(tensor.path, std::ios::binary);
  file.seekg(static_cast<std::streamoff>(tensor.offset) + first * size);
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!file || size == 0)
    return error("cannot read '", tensor.name, "' in '", tensor.path, "'");
  std::vector<double> values;
  for (size_t i = 0; i < static_cast<size_t>(count); ++i)
    switch (tensor.type) {
    case FileType::F32:
      values.push_back(at<float>(bytes, i));
      break;
    case FileType::F64:
      values.push_back(at<double>(bytes, i));
      break;
    case FileType::F16:
      values.push_back(halfToDouble(at<uint16_t>(bytes, i)));
      break;
    default: {
      uint32_t wide = uint32_t(at<uint16_t>(bytes, i)) << 16;
      float value;
      std::memcpy(&value, &wide, 4);
      values.push_back(value);
    }
    }
  return values;
}

} // namespace llmc::verify
