#include "lib/support/ElementType.h"

#include <array>
#include <cstring>
#include <limits>

using namespace llmc::support;

namespace {

struct Spelling {
  ElementType type;
  std::string_view name;
  size_t size;
};

constexpr std::array<Spelling, 17> kSpellings{{{ElementType::F64, "F64", 8},
                                               {ElementType::F32, "F32", 4},
                                               {ElementType::F16, "F16", 2},
                                               {ElementType::BF16, "BF16", 2},
                                               {ElementType::F8E4M3, "F8_E4M3", 1},
                                               {ElementType::F8E5M2, "F8_E5M2", 1},
                                               {ElementType::F8E8M0, "F8_E8M0", 1},
                                               {ElementType::F4E2M1, "F4", 1},
                                               {ElementType::I64, "I64", 8},
                                               {ElementType::I32, "I32", 4},
                                               {ElementType::I16, "I16", 2},
                                               {ElementType::I8, "I8", 1},
                                               {ElementType::U64, "U64", 8},
                                               {ElementType::U32, "U32", 4},
                                               {ElementType::U16, "U16", 2},
                                               {ElementType::U8, "U8", 1},
                                               {ElementType::Bool, "BOOL", 1}}};

constexpr float power(int exponent) {
  float value = 1;
  for (; exponent > 0; --exponent)
    value *= 2;
  for (; exponent < 0; ++exponent)
    value /= 2;
  return value;
}

// Decodes a sign, an exponent of `exponentBits` and a mantissa; exponent 0 is subnormal. Infinity
// and NaN are up to the caller.
constexpr float decoded(unsigned code, unsigned exponentBits, unsigned mantissaBits) {
  unsigned mantissa = code % (1u << mantissaBits);
  unsigned exponent = (code >> mantissaBits) % (1u << exponentBits);
  int least = 2 - (1 << (exponentBits - 1)); // of a normal number
  float fraction = static_cast<float>(mantissa) / static_cast<float>(1u << mantissaBits);
  float value = exponent ? (1 + fraction) * power(least + static_cast<int>(exponent) - 1)
                         : fraction * power(least);
  return code >> (exponentBits + mantissaBits) ? -value : value;
}

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

constexpr float decodedE4M3(unsigned code) {
  return (code & 0x7f) == 0x7f ? kNaN : decoded(code, 4, 3);
}
constexpr float decodedE5M2(unsigned code) {
  float infinity = std::numeric_limits<float>::infinity();
  if ((code & 0x7f) > 0x7c)
    return kNaN;
  return (code & 0x7f) == 0x7c ? (code == 0x7c ? infinity : -infinity) : decoded(code, 5, 2);
}
constexpr float decodedE8M0(unsigned code) {
  return code == 255 ? kNaN : power(static_cast<int>(code) - 127);
}

template <size_t N, class F>
constexpr std::array<float, N> tableOf(F numberAt) {
  std::array<float, N> table{};
  for (unsigned i = 0; i < N; ++i)
    table[i] = numberAt(i);
  return table;
}

constexpr auto kE4M3 = tableOf<256>(decodedE4M3);
constexpr auto kE5M2 = tableOf<256>(decodedE5M2);
constexpr auto kE8M0 = tableOf<256>(decodedE8M0);
constexpr auto kE2M1Pairs = tableOf<512>(
    [](unsigned i) { return decoded(i / 2 >> (i % 2 * 4) & 0xf, 2, 1); });

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

uint64_t llmc::support::byteSize(ElementType type, uint64_t count) {
  return type == ElementType::F4E2M1 ? count / 2 + count % 2 : count * byteSize(type);
}

const float *llmc::support::decodeTable(ElementType type) {
  switch (type) {
  case ElementType::F8E4M3:
    return kE4M3.data();
  case ElementType::F8E5M2:
    return kE5M2.data();
  case ElementType::F8E8M0:
    return kE8M0.data();
  case ElementType::F4E2M1:
    return kE2M1Pairs.data();
  default:
    return nullptr;
  }
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
  case ElementType::F8E4M3:
  case ElementType::F8E5M2:
  case ElementType::F8E8M0:
    return decodeTable(type)[load<uint8_t>(data, index)];
  case ElementType::F4E2M1:
    return decodeTable(type)[load<uint8_t>(data, index / 2) * 2 + index % 2];
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
