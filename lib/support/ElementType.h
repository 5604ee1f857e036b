// Element types of files (safetensors, .npy) and their conversions.
#ifndef LLMC_LIB_SUPPORT_ELEMENTTYPE_H
#define LLMC_LIB_SUPPORT_ELEMENTTYPE_H

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace llmc::support {

enum class ElementType : uint8_t {
  F64, F32, F16, BF16, I64, I32, I16, I8, U64, U32, U16, U8, Bool
};

size_t byteSize(ElementType type);
bool isInteger(ElementType type); // Bool is one

// Safetensors' spellings: "F32", "BF16", "I64", "BOOL", ...
std::string_view toString(ElementType type);
std::optional<ElementType> elementTypeFromSafetensors(std::string_view name);

// Element `index` of an array; `data` need not be aligned.
double readAsDouble(ElementType type, const void *data, size_t index);
// For integers only. U64 past the largest int64 wraps.
int64_t readAsInteger(ElementType type, const void *data, size_t index);

// Here and without a branch: they run for every weight of a model.
inline float halfToFloat(uint16_t bits) {
  // As a float the exponent is too small by 127 - 15, which one exact product repairs.
  uint32_t magnitude = static_cast<uint32_t>(bits & 0x7fff) << 13;
  float value = std::bit_cast<float>(magnitude) * 0x1p112f;
  uint32_t special = magnitude >= 0x0f800000 ? 0x7f800000u : 0u; // infinity, NaN
  uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(value) | special | sign);
}
inline float bfloatToFloat(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

// Product of a shape; nullopt if a dim is negative or it exceeds 2^62.
std::optional<uint64_t> elementCount(const std::vector<int64_t> &shape);

// "[2, 3]".
std::string shapeText(const std::vector<int64_t> &shape);

} // namespace llmc::support

#endif // LLMC_LIB_SUPPORT_ELEMENTTYPE_H
