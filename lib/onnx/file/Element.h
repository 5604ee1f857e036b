// ONNX's element types of numbers: their names, widths, rounding and bits.
#ifndef LLMC_LIB_ONNX_FILE_ELEMENT_H
#define LLMC_LIB_ONNX_FILE_ELEMENT_H

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace llmc::onnximport {

// All that ONNX has, but strings and complex numbers.
enum class Element {
  F32, F64, I32, I64, Bool, F16, BF16, I8, I16, U8, U16, U32, U64, I4, U4, I2, U2,
  F8E4M3FN, F8E4M3FNUZ, F8E5M2, F8E5M2FNUZ, F8E8M0, F4E2M1
};

bool isFloat(Element element);
int bitWidth(Element element);
// Bytes of `count` elements, those of less than a byte packed.
uint64_t byteCount(Element element, uint64_t count);

// From and to TensorProto.DataType; the name is ONNX's ("float16").
std::optional<Element> elementOf(int32_t onnxType);
int32_t onnxTypeOf(Element element);
std::string elementName(int32_t onnxType);

// How a float8 without bits for a value takes it: as its largest, or as
// infinity (not a number where the type has none).
enum class Overflow { Saturate, Special };
// The nearest value of a float type, ties to even.
double roundTo(Element element, double value, Overflow overflow = Overflow::Saturate);
// The value modulo 2^width, in the range of an integer type; 0 or 1 for Bool.
int64_t wrapTo(Element element, int64_t value);
// Toward zero, then as an integer; what int64 cannot hold goes to its limits.
int64_t truncated(double value);

// The value that the low bits of `bits` stand for.
double floatOf(Element element, uint64_t bits);
int64_t integerOf(Element element, uint64_t bits);

} // namespace llmc::onnximport

#endif // LLMC_LIB_ONNX_FILE_ELEMENT_H
