#include "lib/onnx/file/Element.h"

#include "llvm/ADT/StringRef.h"
#include "onnx-ml.pb.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

using namespace llmc::onnximport;
using ::onnx::TensorProto;

namespace {

// Identifies the codes of a float type that are not finite: those of IEEE 754, only that with all
// bits of exponent and mantissa set (NaN), only negative zero (NaN), or none.
enum class Specials { Ieee, OnlyNan, OnlyNegativeZero, None };

struct Format {
  Element element;
  int32_t onnx;
  int bits;
  bool isFloat, isSigned;
  int exponent = 0, mantissa = 0, bias = 0;
  Specials specials = Specials::Ieee;
};

// Describes all types, in the order of Element. Types 24 to 26 are numbers, since the proto file
// of the build may be older.
constexpr std::array<Format, 23> kFormats{{
    {Element::F32, TensorProto::FLOAT, 32, true, true, 8, 23, 127},
    {Element::F64, TensorProto::DOUBLE, 64, true, true, 11, 52, 1023},
    {Element::I32, TensorProto::INT32, 32, false, true},
    {Element::I64, TensorProto::INT64, 64, false, true},
    {Element::Bool, TensorProto::BOOL, 8, false, false},
    {Element::F16, TensorProto::FLOAT16, 16, true, true, 5, 10, 15},
    {Element::BF16, TensorProto::BFLOAT16, 16, true, true, 8, 7, 127},
    {Element::I8, TensorProto::INT8, 8, false, true},
    {Element::I16, TensorProto::INT16, 16, false, true},
    {Element::U8, TensorProto::UINT8, 8, false, false},
    {Element::U16, TensorProto::UINT16, 16, false, false},
    {Element::U32, TensorProto::UINT32, 32, false, false},
    {Element::U64, TensorProto::UINT64, 64, false, false},
    {Element::I4, TensorProto::INT4, 4, false, true},
    {Element::U4, TensorProto::UINT4, 4, false, false},
    {Element::I2, 26, 2, false, true},
    {Element::U2, 25, 2, false, false},
    {Element::F8E4M3FN, TensorProto::FLOAT8E4M3FN, 8, true, true, 4, 3, 7, Specials::OnlyNan},
    {Element::F8E4M3FNUZ, TensorProto::FLOAT8E4M3FNUZ, 8, true, true, 4, 3, 8,
     Specials::OnlyNegativeZero},
    {Element::F8E5M2, TensorProto::FLOAT8E5M2, 8, true, true, 5, 2, 15},
    {Element::F8E5M2FNUZ, TensorProto::FLOAT8E5M2FNUZ, 8, true, true, 5, 2, 16,
     Specials::OnlyNegativeZero},
    {Element::F8E8M0, 24, 8, true, false, 8, 0, 127, Specials::OnlyNan},
    {Element::F4E2M1, TensorProto::FLOAT4E2M1, 4, true, true, 2, 1, 1, Specials::None},
}};

const Format &formatOf(Element element) { return kFormats[static_cast<size_t>(element)]; }

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

double largest(const Format &f) {
  int top = (1 << f.exponent) - 1;
  if (f.specials == Specials::Ieee)
    return std::ldexp(2 - std::ldexp(1.0, -f.mantissa), top - 1 - f.bias);
  // With OnlyNan, the mantissa of all ones is the one code that is not a number.
  double mantissa = 2 - std::ldexp(f.specials == Specials::OnlyNan ? 2.0 : 1.0, -f.mantissa);
  return std::ldexp(mantissa, top - f.bias);
}

// Rounds to a power of two; the type has neither zero nor sign.
double roundToPower(const Format &f, double value) {
  if (!(value > 0) || std::isinf(value))
    return value > 0 ? std::ldexp(1.0, 254 - f.bias) : kNan;
  int exponent;
  double half = std::frexp(value, &exponent); // value = half * 2^exponent, half in [0.5, 1)
  int power = half >= 0.75 ? exponent : exponent - 1;
  return std::ldexp(1.0, std::clamp(power, -f.bias, 254 - f.bias));
}

} // namespace

bool llmc::onnximport::isFloat(Element element) { return formatOf(element).isFloat; }
int llmc::onnximport::bitWidth(Element element) { return formatOf(element).bits; }

uint64_t llmc::onnximport::byteCount(Element element, uint64_t count) {
  int bits = bitWidth(element);
  return bits >= 8 ? count * (bits / 8) : count / (8 / bits) + (count % (8 / bits) != 0);
}

std::optional<Element> llmc::onnximport::elementOf(int32_t onnxType) {
  for (const Format &format : kFormats)
    if (format.onnx == onnxType)
      return format.element;
  return std::nullopt;
}

int32_t llmc::onnximport::onnxTypeOf(Element element) { return formatOf(element).onnx; }

std::string llmc::onnximport::elementName(int32_t onnxType) {
  if (!TensorProto::DataType_IsValid(onnxType))
    return "type " + std::to_string(onnxType);
  return llvm::StringRef(TensorProto::DataType_Name(onnxType)).lower();
}

double llmc::onnximport::roundTo(Element element, double value, Overflow overflow) {
  const Format &f = formatOf(element);
  if (element == Element::F64)
    return value;
  if (element == Element::F32)
    return static_cast<float>(value);
  if (element == Element::F8E8M0)
    return roundToPower(f, value);
  if (std::isnan(value))
    return f.specials == Specials::None ? 0 : value;
  double top = largest(f), rounded = value;
  if (value != 0 && !std::isinf(value)) {
    int exponent = std::max(std::ilogb(value), 1 - f.bias);
    rounded = std::ldexp(std::nearbyint(std::ldexp(value, f.mantissa - exponent)),
                         exponent - f.mantissa);
  }
  if (std::fabs(rounded) > top) {
    bool wide = element == Element::F16 || element == Element::BF16;
    bool saturate = f.specials == Specials::None || (!wide && overflow == Overflow::Saturate);
    rounded = std::copysign(saturate                          ? top
                            : f.specials == Specials::Ieee ? kInfinity
                                                             : kNan,
                            rounded);
  }
  return rounded == 0 && f.specials == Specials::OnlyNegativeZero ? 0 : rounded;
}

int64_t llmc::onnximport::wrapTo(Element element, int64_t value) {
  const Format &f = formatOf(element);
  if (element == Element::Bool)
    return value != 0;
  if (f.bits == 64)
    return value;
  return integerOf(element, static_cast<uint64_t>(value));
}

int64_t llmc::onnximport::truncated(double value) {
  if (value >= -0x1p63 && value < 0x1p63)
    return static_cast<int64_t>(value);
  return value > 0 ? INT64_MAX : std::isnan(value) ? 0 : INT64_MIN; // undefined in C++
}

double llmc::onnximport::floatOf(Element element, uint64_t bits) {
  const Format &f = formatOf(element);
  if (element == Element::F32)
    return std::bit_cast<float>(static_cast<uint32_t>(bits));
  if (element == Element::F64)
    return std::bit_cast<double>(bits);
  int exponent = (bits >> f.mantissa) & ((1 << f.exponent) - 1);
  int mantissa = bits & ((1 << f.mantissa) - 1), top = (1 << f.exponent) - 1;
  bool negative = f.isSigned && (bits >> (f.bits - 1) & 1);
  if (f.specials == Specials::OnlyNegativeZero && negative && !exponent && !mantissa)
    return kNan;
  if (f.specials == Specials::OnlyNan && exponent == top && mantissa == (1 << f.mantissa) - 1)
    return kNan;
  if (f.specials == Specials::Ieee && exponent == top)
    return mantissa ? kNan : negative ? -kInfinity : kInfinity;
  bool subnormal = exponent == 0 && f.mantissa > 0;
  double fraction = std::ldexp(double(mantissa), -f.mantissa) + (subnormal ? 0 : 1);
  double value = std::ldexp(fraction, (subnormal ? 1 : exponent) - f.bias);
  return negative ? -value : value;
}

int64_t llmc::onnximport::integerOf(Element element, uint64_t bits) {
  const Format &f = formatOf(element);
  if (element == Element::Bool)
    return (bits & 0xff) != 0;
  int unused = 64 - f.bits;
  return f.isSigned ? static_cast<int64_t>(bits << unused) >> unused
                    : static_cast<int64_t>(bits << unused >> unused);
}
