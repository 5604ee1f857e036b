// Computes functions of float32 through float64: what is subtracted from an argument, or
// multiplied with a logarithm, needs more digits than the result.
#include "passes/6-emit/kernel/Math.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include <cmath>
#include <limits>

using namespace mlir;

namespace llmc::emit {

static constexpr double kInfinity = std::numeric_limits<double>::infinity();

static Type typeLike(Value x, Type element) {
  if (auto vector = dyn_cast<VectorType>(x.getType()))
    return VectorType::get(vector.getShape(), element);
  return element;
}
static Value widen(Math &m, Value x) {
  return arith::ExtFOp::create(m.b, m.loc, typeLike(x, m.b.getF64Type()), x);
}
static Value narrow(Math &m, Value x) {
  return arith::TruncFOp::create(m.b, m.loc, typeLike(x, m.b.getF32Type()), x);
}
static Value toInt32(Math &m, Value x) {
  return arith::FPToSIOp::create(m.b, m.loc, typeLike(x, m.b.getI32Type()), x);
}
static Value bitsOf(Math &m, Value x) {
  return arith::BitcastOp::create(m.b, m.loc, typeLike(x, m.b.getI64Type()), x);
}
static Value compare(Math &m, arith::CmpFPredicate predicate, Value x, Value y) {
  return arith::CmpFOp::create(m.b, m.loc, predicate, x, y);
}
static Value equal(Math &m, Value x, double value) {
  return compare(m, arith::CmpFPredicate::OEQ, x, m.f(value, x));
}
static Value both(Math &m, Value x, Value y) { return arith::AndIOp::create(m.b, m.loc, x, y); }
static Value either(Math &m, Value x, Value y) { return arith::OrIOp::create(m.b, m.loc, x, y); }
// Clamps x to [-size, size]; a NaN stays one.
static Value clamp(Math &m, Value x, double size) {
  x = m.select(m.less(m.f(size, x), x), m.f(size, x), x);
  return m.select(m.less(x, m.f(-size, x)), m.f(-size, x), x);
}
static Value truncate(Math &m, Value x) { return math::TruncOp::create(m.b, m.loc, x); }

//===-- sin, cos ------------------------------------------------------------===//

// Returns sin(x + quadrants pi / 2): x = n pi / 2 + r, then by n mod 4 the sine or cosine of r
// (polynomials from Cephes).
static Value sine(Math &m, Value x, int64_t quadrants) {
  Value wide = clamp(m, widen(m, x), 0x1p31 - 4);
  Value n = m.round(m.mul(wide, m.f(M_2_PI, wide)));
  Value rest = m.fma(n, m.f(-M_PI_2, wide), wide);
  Value r = narrow(m, m.fma(n, m.f(-6.123233995736766e-17, wide), rest));
  Value z = m.mul(r, r);
  Value s = m.polynomial(z, {-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1});
  s = m.fma(m.mul(s, z), r, r);
  Value c = m.polynomial(z, {2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2});
  c = m.fma(m.mul(c, z), z, m.fma(m.f(-0.5, z), z, m.f(1, z)));
  Value quadrant = toInt32(m, n);
  quadrant = arith::AddIOp::create(m.b, m.loc, quadrant, m.i(quadrants, quadrant));
  auto hasBit = [&](int64_t bit) -> Value {
    Value masked = arith::AndIOp::create(m.b, m.loc, quadrant, m.i(bit, quadrant));
    return arith::CmpIOp::create(m.b, m.loc, arith::CmpIPredicate::ne, masked, m.i(0, quadrant));
  };
  Value y = m.select(hasBit(1), c, s);
  y = m.select(hasBit(2), m.neg(y), y);
  double nan = std::numeric_limits<double>::quiet_NaN();
  return m.select(m.less(m.abs(x), m.f(kInfinity, x)), y, m.f(nan, x));
}

Value Math::sin(Value x) { return sine(*this, x, 0); }
Value Math::cos(Value x) { return sine(*this, x, 1); }

//===-- power ---------------------------------------------------------------===//

// Returns the log of a finite x > 0 in float64: x = 2^e m with m in [sqrt(1/2), sqrt(2)), and
// log m = 2 artanh((m - 1) / (m + 1)).
static Value wideLog(Math &m, Value x) {
  constexpr int64_t kSqrtHalf = 0x3fe6a09e667f3bcd, kOne = 0x3ff0000000000000;
  auto sub = [&](Value a, Value b) -> Value { return arith::SubIOp::create(m.b, m.loc, a, b); };
  Value bits = bitsOf(m, x);
  Value shifted = sub(bits, m.i(kSqrtHalf - kOne, bits));
  Value biased = arith::ShRUIOp::create(m.b, m.loc, shifted, m.i(52, bits));
  Value e = sub(biased, m.i(1023, bits));
  Value mantissa = sub(bits, arith::ShLIOp::create(m.b, m.loc, e, m.i(52, bits)));
  mantissa = arith::BitcastOp::create(m.b, m.loc, x.getType(), mantissa);
  // AVX2 converts no vectors of i64 to floats, so the exponent is narrowed first.
  e = arith::TruncIOp::create(m.b, m.loc, typeLike(x, m.b.getI32Type()), e);
  e = arith::SIToFPOp::create(m.b, m.loc, x.getType(), e);
  Value one = m.f(1, x), s = m.div(m.sub(mantissa, one), m.add(mantissa, one));
  Value z = m.mul(s, s);
  Value series = m.polynomial(z, {1. / 15, 1. / 13, 1. / 11, 1. / 9, 1. / 7, 1. / 5, 1. / 3, 1});
  return m.fma(e, m.f(M_LN2, x), m.mul(m.add(s, s), series));
}

// Returns e^x in float64 for |x| <= 400.
static Value wideExp(Math &m, Value x) {
  Value n = m.round(m.mul(x, m.f(M_LOG2E, x)));
  Value r = m.fma(n, m.f(-M_LN2, x), x);
  Value y = m.polynomial(r, {1. / 3628800, 1. / 362880, 1. / 40320, 1. / 5040, 1. / 720, 1. / 120,
                             1. / 24, 1. / 6, 0.5, 1, 1});
  Value whole = arith::ExtSIOp::create(m.b, m.loc, typeLike(x, m.b.getI64Type()), toInt32(m, n));
  Value exponent = arith::ShLIOp::create(m.b, m.loc, whole, m.i(52, whole));
  Value bits = arith::AddIOp::create(m.b, m.loc, bitsOf(m, y), exponent);
  return arith::BitcastOp::create(m.b, m.loc, x.getType(), bits);
}

// Computes |x|^y = e^(y log |x|); the result of a negative x takes its sign from whether y is
// odd.
Value Math::power(Value x, Value y) {
  Value size = abs(x), wide = widen(*this, size), exponent = widen(*this, y);
  Value logarithm = wideLog(*this, wide);
  logarithm = select(equal(*this, wide, 0), f(-kInfinity, wide), logarithm);
  logarithm = select(equal(*this, wide, kInfinity), f(kInfinity, wide), logarithm);
  Value scaled = select(equal(*this, logarithm, 0), logarithm, mul(exponent, logarithm));
  Value result = narrow(*this, wideExp(*this, clamp(*this, scaled, 400)));

  Value isWhole = compare(*this, arith::CmpFPredicate::OEQ, floor(y), y);
  Value half = mul(y, f(0.5, y));
  Value isOdd = both(*this, isWhole, compare(*this, arith::CmpFPredicate::UNE, floor(half), half));
  Value signedResult = math::CopySignOp::create(b, loc, result, x);
  result = select(isOdd, signedResult, result);
  Value isNegative = both(*this, less(x, f(0, x)), less(f(-kInfinity, x), x));
  Value isPart = arith::XOrIOp::create(b, loc, isWhole, i(1, isWhole));
  Value invalid = either(*this, both(*this, isNegative, isPart),
                         compare(*this, arith::CmpFPredicate::UNO, x, y));
  result = select(invalid, f(std::numeric_limits<double>::quiet_NaN(), x), result);
  return select(either(*this, equal(*this, x, 1), equal(*this, y, 0)), f(1, x), result);
}

//===-- rem -----------------------------------------------------------------===//

// Subtracts multiples of y: each iteration takes one from x without rounding and leaves 2^-52 of
// it, or less than |y|, so six do for the largest x and the smallest y of float32.
Value Math::rem(Value x, Value y) {
  Value wideX = widen(*this, x), wideY = widen(*this, y), r = wideX;
  for (int turn = 0; turn < 6; ++turn)
    r = fma(neg(truncate(*this, div(r, wideY))), wideY, r);
  // A quotient that was rounded up leaves the other sign, which adding y back corrects.
  Value other = less(mul(r, wideX), f(0, r));
  Value back = math::CopySignOp::create(b, loc, abs(wideY), wideX);
  r = math::CopySignOp::create(b, loc, select(other, add(r, back), r), wideX);
  // The remainder of a finite x by an infinite y is x.
  Value whole = both(*this, equal(*this, abs(y), kInfinity), less(abs(x), f(kInfinity, x)));
  return select(whole, x, narrow(*this, r));
}

} // namespace llmc::emit
