#include "dialects/graph/Rounding.h"

#include "llvm/ADT/APFloat.h"
#include "mlir/IR/BuiltinTypes.h"

#include <algorithm>
#include <cmath>

using namespace mlir;

namespace llmc::graph {

namespace {

// Describes the numbers of a binary format: significant bits, the exponents of the largest power of
// two and of the smallest normal number.
struct Format {
  int bits, most, least;
};

} // namespace

static Format formatOf(FloatType type) {
  const llvm::fltSemantics &semantics = type.getFloatSemantics();
  return {int(llvm::APFloat::semanticsPrecision(semantics)),
          int(llvm::APFloat::semanticsMaxExponent(semantics)),
          int(llvm::APFloat::semanticsMinExponent(semantics))};
}

static double rounded(const Format &format, double x) {
  if (x == 0 || !std::isfinite(x))
    return x;
  int exponent = std::max(std::ilogb(x), format.least) - format.bits + 1;
  // Both scalings are exact, and nearbyint rounds to nearest even.
  double result = std::ldexp(std::nearbyint(std::ldexp(x, -exponent)), exponent);
  return std::ilogb(result) > format.most ? std::copysign(double(INFINITY), x) : result;
}

static bool isRounded(Type element) {
  return element.isF32() || element.isBF16() || element.isF16();
}

double roundedTo(Type element, double x) {
  return isRounded(element) ? rounded(formatOf(cast<FloatType>(element)), x) : x;
}

void roundTo(Type tensorType, Tensor &tensor) {
  Type element = cast<RankedTensorType>(tensorType).getElementType();
  if (!isRounded(element))
    return;
  if (element.isF32()) { // far the most frequent, and the processor does it
    for (double &x : tensor.data)
      x = double(float(x));
    return;
  }
  Format format = formatOf(cast<FloatType>(element));
  for (double &x : tensor.data)
    x = rounded(format, x);
}

} // namespace llmc::graph
