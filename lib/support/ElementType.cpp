#include "lib/support/ElementType.h"

#include <array>
#include <cstring>

using namespace llmc::support;

namespace {

struct Spelling {
  ElementType type;
  std::string_view name;
  size_t size;
};

constexpr std::array<Spelling, 13> kSpellings{{{ElementType::F64, "F64", 8},
                                               {ElementType::F32, "F32", 4},
                                               {ElementType::F16, "F16", 2},
                                               {ElementType::BF16, "BF16", 2},
                                               {ElementType::I64, "I64", 8},
                                               {ElementType::I32, "I32", 4},
                                               {ElementType::I16, "I16", 2},
                                               {ElementType::I8, "I8", 1},
                                               {ElementType::U64, "U64", 8},
                                               {ElementType::U32, "U32", 4},
                                               {ElementType::U16, "U16", 2},
                                               {ElementType::U8, "U8", 1},
                                               {ElementType::Bool, "BOOL", 1}}};

template <class T>
T load(const void *data, size_t index) {
  T value;
  std::memcpy(&value, static_cast<const char *>(data) + index * sizeof(T), sizeof(T));
  return value;
}

} // namespace

size_t llmc::support::byteSize(ElementType type) {
  return kSpellings[static_cast<size_t>(type)].size;
}

bool llmc::support::isInteger(ElementType type) { return type >= ElementType::I64; }

std::string_view llmc::support::toString(ElementType type) {
  return kSpellings[static_cast<size_t>(type)].name;
}

std::optional<ElementType>
llmc::support::elementTypeFromSafetensors(std::string_view name) {
  for (const Spelling &spelling : kSpellings)
    if (spelling.name == name)
      return spelling.type;
  return std::nullopt;
}

double llmc::support::readAsDouble(ElementType type, const void *data, size_t index) {
  switch (type) {
  case ElementType::F64:
    return load<double>(data, index);
  case ElementType::F32:
    return load<float>(data, index);
  case ElementType::F16:
    return halfToFloat(load<uint16_t>(data, index));
  case ElementType::BF16:
    return bfloatToFloat(load<uint16_t>(data, index));
  default:
    return static_cast<double>(readAsInteger(type, data, index));
  }
}

int64_t llmc::support::readAsInteger(ElementType type, const void *data, size_t index) {
  switch (type) {
  case ElementType::I64:
    return load<int64_t>(data, index);
  case ElementType::I32:
    return load<int32_t>(data, index);
  case ElementType::I16:
    return load<int16_t>(data, index);
  case ElementType::I8:
    return load<int8_t>(data, index);
  case ElementType::U64:
    return static_cast<int64_t>(load<uint64_t>(data, index));
  case ElementType::U32:
    return load<uint32_t>(data, index);
  case ElementType::U16:
    return load<uint16_t>(data, index);
  case ElementType::U8:
  case ElementType::Bool:
    return load<uint8_t>(data, index);
  default:
    return static_cast<int64_t>(readAsDouble(type, data, index));
  }
}

std::optional<uint64_t> llmc::support::elementCount(const std::vector<int64_t> &shape) {
  constexpr uint64_t largest = uint64_t(1) << 62;
  uint64_t count = 1;
  for (int64_t dim : shape) {
    if (dim < 0 || (dim > 0 && count > largest / static_cast<uint64_t>(dim)))
      return std::nullopt;
    count *= static_cast<uint64_t>(dim);
  }
  return count;
}

std::string llmc::support::shapeText(const std::vector<int64_t> &shape) {
  std::string out = "[";
  for (size_t i = 0; i < shape.size(); ++i)
    out += (i ? ", " : "") + std::to_string(shape[i]);
  return out + "]";
}
