// Expansions of the transcendental functions. Polynomials: exp, log and tanh
// from Cephes (Moshier), erf from N. Juffa's faithfully rounded form.
#include "passes/6-emit/Math.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include <cmath>
#include <limits>

using namespace mlir;

namespace llmc::emit {

static Attribute splat(Attribute value, Type type) {
  if (auto vector = dyn_cast<VectorType>(type))
    return DenseElementsAttr::get(vector, value);
  return value;
}

Value Math::f(double value, Value like) {
  Type element = getElementTypeOrSelf(like);
  return arith::ConstantOp::create(
      b, loc, cast<TypedAttr>(splat(b.getFloatAttr(element, value), like.getType())));
}
Value Math::i(int64_t value, Value like) {
  Type element = getElementTypeOrSelf(like);
  return arith::ConstantOp::create(
      b, loc, cast<TypedAttr>(splat(b.getIntegerAttr(element, value), like.getType())));
}

Value Math::add(Value x, Value y) { return arith::AddFOp::create(b, loc, x, y); }
Value Math::sub(Value x, Value y) { return arith::SubFOp::create(b, loc, x, y); }
Value Math::mul(Value x, Value y) { return arith::MulFOp::create(b, loc, x, y); }
Value Math::div(Value x, Value y) { return arith::DivFOp::create(b, loc, x, y); }
Value Math::neg(Value x) { return arith::NegFOp::create(b, loc, x); }
Value Math::fma(Value x, Value y, Value z) { return math::FmaOp::create(b, loc, x, y, z); }
Value Math::abs(Value x) { return math::AbsFOp::create(b, loc, x); }
Value Math::sqrt(Value x) { return math::SqrtOp::create(b, loc, x); }
Value Math::floor(Value x) { return math::FloorOp::create(b, loc, x); }
Value Math::ceil(Value x) { return math::CeilOp::create(b, loc, x); }
Value Math::round(Value x) { return math::RoundEvenOp::create(b, loc, x); }
Value Math::less(Value x, Value y) {
  return arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OLT, x, y);
}
Value Math::select(Value condition, Value x, Value y) {
  return arith::SelectOp::create(b, loc, condition, x, y);
}
Value Math::larger(Value x, Value y) { return select(less(y, x), x, y); }

Value Math::polynomial(Value x, ArrayRef<double> coefficients) {
  Value sum = f(coefficients[0], x);
  for (double coefficient : coefficients.drop_front())
    sum = fma(sum, x, f(coefficient, x));
  return sum;
}

static Type integersLike(Value x, unsigned bits) {
  Type integer = IntegerType::get(x.getContext(), bits);
  if (auto vector = dyn_cast<VectorType>(x.getType()))
    return VectorType::get(vector.getShape(), integer);
  return integer;
}

// 2^n for an integer n in [-126, 127].
static Value powerOfTwo(Math &m, Value n, Type floats) {
  Value biased = arith::AddIOp::create(m.b, m.loc, n, m.i(127, n));
  Value bits = arith::ShLIOp::create(m.b, m.loc, biased, m.i(23, n));
  return arith::BitcastOp::create(m.b, m.loc, floats, bits);
}

// x = n ln 2 + r; e^x = 2^n e^r, the power applied in two halves so that
// results down to the smallest denormal are right.
Value Math::exp(Value x) {
  Value clamped = select(less(x, f(-105, x)), f(-105, x), x);
  clamped = select(less(f(89, x), clamped), f(89, x), clamped);
  // Past 1.5 2^23 the last bit of a float is 1: adding it rounds, and leaves n in the bits.
  constexpr double kRound = 12582912;
  Value shifted = fma(clamped, f(M_LOG2E, x), f(kRound, x)), n = sub(shifted, f(kRound, x));
  Value r = fma(n, f(-0.693359375, x), clamped);
  r = fma(n, f(2.12194440e-4, x), r);
  Value p = polynomial(r, {1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2,
                           1.6666665459e-1, 5.0000001201e-1});
  Value y = add(fma(p, mul(r, r), r), f(1, x));
  Value bits = arith::BitcastOp::create(b, loc, integersLike(x, 32), shifted);
  Value whole = arith::SubIOp::create(b, loc, bits, i(0x4b400000, bits));
  Value half = arith::ShRSIOp::create(b, loc, whole, i(1, whole));
  Value other = arith::SubIOp::create(b, loc, whole, half);
  // A NaN stays one by any factor.
  return mul(mul(y, powerOfTwo(*this, half, x.getType())), powerOfTwo(*this, other, x.getType()));
}

// x = 2^e m, m in [sqrt(1/2), sqrt(2)).
Value Math::log(Value x) {
  Value denormal = less(x, f(std::numeric_limits<float>::min(), x));
  Value scaled = select(denormal, mul(x, f(8388608, x)), x);
  Value bits = arith::BitcastOp::create(b, loc, integersLike(x, 32), scaled);
  // Moves the boundary of the exponent from 1 to sqrt(1/2) = 0x3f3504f3.
  Value shifted = arith::SubIOp::create(b, loc, bits, i(0x3f3504f3, bits));
  Value exponent = arith::ShRSIOp::create(b, loc, shifted, i(23, bits));
  Value mantissaBits =
      arith::SubIOp::create(b, loc, bits, arith::ShLIOp::create(b, loc, exponent, i(23, bits)));
  Value z = sub(arith::BitcastOp::create(b, loc, x.getType(), mantissaBits), f(1, x));
  Value e = arith::SIToFPOp::create(b, loc, x.getType(), exponent);
  e = sub(e, select(denormal, f(23, x), f(0, x)));
  Value p = polynomial(z, {7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1,
                           1.4249322787e-1, -1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1,
                           3.3333331174e-1});
  Value square = mul(z, z);
  Value y = mul(mul(p, z), square);
  y = fma(e, f(-2.12194440e-4, x), y);
  y = fma(square, f(-0.5, x), y);
  y = fma(e, f(0.693359375, x), add(z, y));
  double infinity = std::numeric_limits<double>::infinity();
  Value isInfinite = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ, x, f(infinity, x));
  y = select(isInfinite, x, y);
  Value isZero = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ, x, f(0, x));
  y = select(isZero, f(-infinity, x), y);
  // Negative or NaN.
  Value invalid = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::ULT, x, f(0, x));
  return select(invalid, f(std::numeric_limits<double>::quiet_NaN(), x), y);
}

// Near zero a polynomial (1 - 2 / (e^2x + 1) would cancel there).
Value Math::tanh(Value x) {
  Value size = abs(x), square = mul(x, x);
  Value p = polynomial(square, {-5.70498872745e-3, 2.06390887954e-2, -5.37397155531e-2,
                                1.33314422036e-1, -3.33332819422e-1});
  Value small = fma(mul(p, square), x, x);
  Value large = sub(f(1, x), div(f(2, x), add(exp(add(size, size)), f(1, x))));
  large = math::CopySignOp::create(b, loc, large, x);
  return select(less(size, f(0.625, x)), small, large);
}

// 1 - erf(t) for t > kErfSplit: 1e-4 of itself down to t = 4, 2e-8 everywhere.
static constexpr double kErfSplit = 0.927734375;
static Value erfTail(Math &m, Value t) {
  Value s = m.mul(t, t);
  Value r = m.fma(m.f(-1.72853470e-5, t), t, m.f(3.83197126e-4, t));
  Value u = m.fma(m.f(-3.88396438e-3, t), t, m.f(2.42546219e-2, t));
  r = m.fma(r, s, u);
  for (double coefficient : {-1.06777877e-1, -6.34846687e-1, -1.28717512e-1})
    r = m.fma(r, t, m.f(coefficient, t));
  r = m.fma(r, t, m.neg(t));
  // Past 10 the polynomial turns; nothing is left of the tail long before.
  return m.exp(m.select(m.less(m.f(10, t), t), m.f(-110, t), r));
}
static Value erfNearZero(Math &m, Value x) {
  Value p = m.polynomial(m.mul(x, x), {-5.96761703e-4, 4.99119423e-3, -2.67681349e-2, 1.12819925e-1,
                                       -3.76125336e-1, 1.28379166e-1});
  return m.fma(p, x, x);
}

Value Math::erf(Value x) {
  Value t = abs(x);
  Value large = math::CopySignOp::create(b, loc, sub(f(1, x), erfTail(*this, t)), x);
  return select(less(f(kErfSplit, x), t), large, erfNearZero(*this, x));
}

// (1 + erf(x / sqrt 2)) / 2, where for negative x the tail itself is what counts.
Value Math::normalCdf(Value x) {
  Value z = mul(x, f(M_SQRT1_2, x)), t = abs(z), half = f(0.5, x);
  Value tail = mul(half, erfTail(*this, t));
  Value large = select(less(x, f(0, x)), tail, sub(f(1, x), tail));
  return select(less(f(kErfSplit, x), t), large, fma(erfNearZero(*this, z), half, half));
}

// From e = exp(-|x|), which never overflows.
std::pair<Value, Value> Math::sigmoids(Value x) {
  Value e = exp(neg(abs(x))), sum = add(f(1, x), e);
  Value large = div(f(1, x), sum), small = div(e, sum);
  Value isNegative = less(x, f(0, x));
  return {select(isNegative, small, large), select(isNegative, large, small)};
}
Value Math::sigmoid(Value x) {
  Value e = exp(neg(abs(x))), one = f(1, x);
  return div(select(less(x, f(0, x)), e, one), add(one, e));
}

// max(x, 0) + log(1 + e) with e = e^-|x|; where 1 + e = s is rounded, log(s) e / (s - 1)
// makes up for it (Kahan's log1p).
Value Math::softplus(Value x) {
  Value e = exp(neg(abs(x))), s = add(f(1, x), e), rounded = sub(s, f(1, x));
  Value isLost = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ, rounded, f(0, x));
  Value rest = select(isLost, e, mul(log(s), div(e, rounded)));
  return add(select(less(x, f(0, x)), f(0, x), x), rest);
}

Value Math::pow(Value x, double exponent) {
  if (exponent == 0.5)
    return sqrt(x);
  if (exponent == -0.5)
    return div(f(1, x), sqrt(x));
  double size = std::fabs(exponent);
  if (size == std::floor(size) && size <= 64) {
    Value result = f(1, x), square = x;
    for (int64_t rest = size; rest; rest >>= 1) {
      if (rest & 1)
        result = mul(result, square);
      square = mul(square, square);
    }
    return exponent < 0 ? div(f(1, x), result) : result;
  }
  return power(x, f(exponent, x));
}

} // namespace llmc::emit
