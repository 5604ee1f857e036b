// Expands the transcendental functions. The polynomial of log is that of Cephes (Moshier), the
// others are minimax fits of the relative error.
#include "passes/6-emit/kernel/Math.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/TypeUtilities.h"
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

namespace {
// Holds x = n ln 2 + r with an integer n, up to n kLn2Rest: r, n as a float, and n plus a bias
// in the low bits of an integer.
constexpr double kLn2Rest = 1.904654323e-9; // of the float next to ln 2
constexpr int kBias = 127;                  // of an exponent
struct Reduced {
  Value r, n, bits;
};
} // namespace
static Reduced reduce(Math &m, Value x, int bias) {
  // Next to 1.5 2^23 the last bit of a float is worth 1: adding it rounds to an integer.
  double round = 12582912 + bias;
  Value shifted = m.fma(x, m.f(M_LOG2E, x), m.f(round, x)), n = m.sub(shifted, m.f(round, x));
  Value bits = arith::BitcastOp::create(m.b, m.loc, integersLike(x, 32), shifted);
  return {m.fma(n, m.f(-M_LN2, x), x), n, bits};
}
static Value powerOfReduced(Math &m, Value r) {
  return m.polynomial(r, {1.38145399e-3, 8.36874513e-3, 4.16683908e-2, 1.66665204e-1,
                          4.99999934e-1, 1, 1});
}
static Value shiftToExponent(Math &m, Value bits) {
  return arith::ShLIOp::create(m.b, m.loc, bits, m.i(23, bits));
}
// Returns 2^n where the bias of `bits` was that of an exponent.
static Value powerOfTwo(Math &m, Value bits, Type floats) {
  return arith::BitcastOp::create(m.b, m.loc, floats, shiftToExponent(m, bits));
}

// Returns e^x for x in [-105, 89], rounded a second time where the result is denormal.
static Value powerOfE(Math &m, Value x) {
  auto [r, n, bits] = reduce(m, x, 2 * kBias);
  Value p = powerOfReduced(m, m.fma(n, m.f(kLn2Rest, x), r));
  // The power is applied in two halves, so that each factor is a normal number.
  Value half = arith::ShRUIOp::create(m.b, m.loc, bits, m.i(1, bits));
  Value other = arith::SubIOp::create(m.b, m.loc, bits, half);
  return m.mul(m.mul(p, powerOfTwo(m, half, x.getType())), powerOfTwo(m, other, x.getType()));
}

Value Math::smaller(Value x, double limit) {
  return select(less(f(limit, x), x), f(limit, x), x);
}
Value Math::larger(Value x, double limit) {
  return select(less(x, f(limit, x)), f(limit, x), x);
}
// Clamps x: e^-105 underflows to 0 and e^89 overflows to infinity.
Value Math::exp(Value x) { return powerOfE(*this, smaller(larger(x, -105), 89)); }

Value Math::expNonPositive(Value x) {
  auto [r, n, bits] = reduce(*this, x, kBias);
  Value p = polynomial(r, {8.29027193e-3, 4.18981597e-2, 1.66676381e-1, 4.99991478e-1,
                           9.99999706e-1, 1});
  return select(less(x, f(-86, x)), f(0, x), mul(p, powerOfTwo(*this, bits, x.getType())));
}
Value Math::expBounded(Value x) {
  auto [r, n, bits] = reduce(*this, x, 0);
  Value p = arith::BitcastOp::create(b, loc, bits.getType(), powerOfReduced(*this, r));
  Value y = arith::AddIOp::create(b, loc, p, shiftToExponent(*this, bits));
  return arith::BitcastOp::create(b, loc, x.getType(), y);
}
// Computes e^x - 1 = s (e^r - 1) + (s - 1) with s = 2^n.
Value Math::expm1NonPositive(Value x) {
  auto [r, n, bits] = reduce(*this, larger(x, -80), kBias);
  Value s = powerOfTwo(*this, bits, x.getType());
  Value p = polynomial(r, {1.38825163e-3, 8.36654714e-3, 4.16672007e-2, 1.66665434e-1,
                           4.99999981e-1});
  return fma(s, fma(mul(r, r), p, r), sub(s, f(1, x)));
}

// Decomposes x = 2^e m with m in [sqrt(1/2), sqrt(2)).
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
  // The comparison holds for negative numbers and NaN.
  Value invalid = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::ULT, x, f(0, x));
  return select(invalid, f(std::numeric_limits<double>::quiet_NaN(), x), y);
}

Value Math::tanh(Value x) {
  Value e = expm1NonPositive(mul(f(-2, x), abs(x)));
  return math::CopySignOp::create(b, loc, div(e, add(f(2, x), e)), x);
}

// Computes 1 - e^p(|x|) with the sign of x.
Value Math::erf(Value x) {
  Value t = smaller(abs(x), 4);
  Value p = polynomial(t, {9.256201243e-06, -0.0001176406757, 0.0006328346286, -0.001667023164,
                           0.0001603914771, 0.0191530666, -0.1027778313, -0.6366193819,
                           -1.128379172});
  return math::CopySignOp::create(b, loc, expm1NonPositive(mul(p, t)), x);
}

// Computes the tail as the density times a smooth function (Mills' ratio), so that it keeps its
// relative precision for negative x, where the tail is the result.
Math::Normal Math::normal(Value x) {
  Value t = abs(x), power = expBounded(mul(mul(f(-0.5, x), t), t));
  Value ratio = div(polynomial(t, {0.01351613154, 0.1044051419, 0.3354755425, 0.4999999937}),
                    polynomial(t, {0.03389224865, 0.2612746767, 0.8807842859, 1.468834602, 1}));
  Value tail = mul(power, ratio);
  return {select(less(x, f(0, x)), tail, sub(f(1, x), tail)),
          mul(power, f(1 / std::sqrt(2 * M_PI), x))};
}

// Computes from e^-|x|, which never overflows.
Value Math::sigmoid(Value x) {
  Value e = powerOfE(*this, larger(neg(abs(x)), -105)), one = f(1, x);
  return div(select(less(x, f(0, x)), e, one), add(one, e));
}

// Computes max(x, 0) + log(1 + e) with e = e^-|x|.
Value Math::softplus(Value x) {
  Value e = powerOfE(*this, larger(neg(abs(x)), -105));
  Value ratio = polynomial(e, {0.0052326843059, -0.0295051988693, 0.0782258868851, -0.13663240281,
                               0.191060041678, -0.24842981551, 0.333190967243, -0.499994931365,
                               0.999999969879});
  return fma(e, ratio, larger(x, 0));
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
