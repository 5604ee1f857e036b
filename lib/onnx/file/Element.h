// Describes ONNX's numeric element types: names, widths, rounding and bit patterns.
// Tested by test/import/Storage.cpp and test/conformance.
#ifndef LLMC_LIB_ONNX_FILE_ELEMENT_H
#define LLMC_LIB_ONNX_FILE_ELEMENT_H

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace llmc::onnximport {

// Identifies an element type: all that ONNX has but strings and complex numbers.
enum class Element {
  F32, F64, I32, I64, Bool, F16, BF16, I8, I16, U8, U16, U32, U64, I4, U4, I2, U2,
  F8E4M3FN, F8E4M3FNUZ, F8E5M2, F8E5M2FNUZ, F8E8M0, F4E2M1
};

bool isFloat(Element element);
int bitWidth(Element element);
// Returns the bytes of `count` elements; elements of less than a byte are packed.
uint64_t byteCount(Element element, uint64_t count);

// Converts from and to TensorProto.DataType. elementOf returns nullopt for types that are not
// supported, elementName ONNX's name ("float16") or "type N".
std::optional<Element> elementOf(int32_t onnxType);
int32_t onnxTypeOf(Element element);
std::string elementName(int32_t onnxType);

// Selects the float8 value for numbers out of range: the largest finite one, or infinity (NaN if
// the type has no infinity).
enum class Overflow { Saturate, Special };
// Rounds to the nearest value of a float type, ties to even. F8E8M0, powers of two: ties upward,
// NaN for zero and negative values, and the largest power for infinity.
double roundTo(Element element, double value, Overflow overflow = Overflow::Saturate);
// Returns the value modulo 2^width, in the range of an integer type; 0 or 1 for Bool.
int64_t wrapTo(Element element, int64_t value);
// Rounds toward zero; saturates at the limits of int64, and returns 0 for NaN.
int64_t truncated(double value);

// Decodes the low bits of `bits` as a value of the type.
double floatOf(Element element, uint64_t bits);
int64_t integerOf(Element element, uint64_t bits);

} // namespace llmc::onnximport

#endif // LLMC_LIB_ONNX_FILE_ELEMENT_H
