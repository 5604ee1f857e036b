// Lists the element types of files (safetensors, .npy) and converts between them. Tests:
// test/runtime/DequantizerTest.cpp, test/runtime/WeightsTest.cpp (NarrowNumbersAreRoundedToEven).
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
  F64, F32, F16, BF16, F8E4M3, F8E5M2, F8E8M0, F4E2M1, I64, I32, I16, I8, U64, U32, U16, U8, Bool
};

size_t byteSize(ElementType type); // of an F4E2M1, two of which share a byte: 1
// Returns the bytes of an array of `count` elements.
uint64_t byteSize(ElementType type, uint64_t count);
bool isInteger(ElementType type); // Bool is one

// Spells a type as safetensors does: "F32", "F8_E4M3", "BF16", "I64", "BOOL", ...; the reverse
// returns nullopt for an unknown name.
std::string_view toString(ElementType type);
std::optional<ElementType> elementTypeFromSafetensors(std::string_view name);

// Returns the table that decodes bytes of an F8... type (256 floats) or of F4E2M1 (two floats for
// each byte, the low half first); null for other types. The formats are those of the OCP: E4M3
// has no infinity, E8M0 is a power of two.
const float *decodeTable(ElementType type);

// Reads element `index` of an array as a double; `data` need not be aligned.
double readAsDouble(ElementType type, const void *data, size_t index);
// Reads an integer element. U64 past the largest int64 wraps; floats are truncated.
int64_t readAsInteger(ElementType type, const void *data, size_t index);

// Converts to float, inline and without a branch: it runs for every weight of a model.
inline float halfToFloat(uint16_t bits) {
  // Corrects the exponent, which as a float is too small by 127 - 15, with one exact product.
  uint32_t magnitude = static_cast<uint32_t>(bits & 0x7fff) << 13;
  float value = std::bit_cast<float>(magnitude) * 0x1p112f;
  uint32_t special = magnitude >= 0x0f800000 ? 0x7f800000u : 0u; // infinity, NaN
  uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(value) | special | sign);
}
inline float bfloatToFloat(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}
// Rounds to nearest, ties to even, subnormals too; a NaN stays one.
inline uint16_t floatToBfloat(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  uint32_t quiet = bits >> 16 | 0x40;
  return static_cast<uint16_t>((bits & 0x7fffffff) > 0x7f800000 ? quiet : rounded);
}
inline uint16_t floatToHalf(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value), magnitude = bits & 0x7fffffff;
  uint32_t rounded = (magnitude - (112u << 23) + 0xfff + (magnitude >> 13 & 1)) >> 13;
  // Rounds a subnormal half by addition: next to 0.5 a float steps by 2^-24, the smallest half.
  uint32_t small = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - (126u << 23);
  uint32_t quiet = 0x7e00 | (magnitude >> 13 & 0x1ff);
  uint32_t result = magnitude < 0x38800000 ? small : rounded;
  result = magnitude >= 0x477ff000 ? 0x7c00 : result; // 65520 and more
  result = magnitude > 0x7f800000 ? quiet : result;
  return static_cast<uint16_t>(result | (bits >> 16 & 0x8000));
}

// Holds the bits of a bfloat16 or a float16, for code that fills arrays of any float type. A double
// is rounded to float32 first, so that the number is what its float32 copy rounds to.
struct BfloatNumber {
  static constexpr ElementType kType = ElementType::BF16;
  BfloatNumber() = default;
  explicit BfloatNumber(float value) : bits(floatToBfloat(value)) {}
  explicit BfloatNumber(double value) : BfloatNumber(static_cast<float>(value)) {}
  uint16_t bits = 0;
};
struct HalfNumber {
  static constexpr ElementType kType = ElementType::F16;
  HalfNumber() = default;
  explicit HalfNumber(float value) : bits(floatToHalf(value)) {}
  explicit HalfNumber(double value) : HalfNumber(static_cast<float>(value)) {}
  uint16_t bits = 0;
};

// Returns the product of a shape; nullopt if a dim is negative or the product exceeds 2^62.
std::optional<uint64_t> elementCount(const std::vector<int64_t> &shape);

// Formats a shape: "[2, 3]".
std::string shapeText(const std::vector<int64_t> &shape);

} // namespace llmc::support

#endif // LLMC_LIB_SUPPORT_ELEMENTTYPE_H
