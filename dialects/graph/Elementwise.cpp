// Elementwise ops. One line per op says its value and its gradient.
#include "dialects/graph/Detail.h"

#include <cmath>

using namespace mlir;
using namespace llmc::graph;

//===-- Types ---------------------------------------------------------------===//

// C1 and C2. `first` is the first operand that has the common element type.
static LogicalResult inferElementwise(std::optional<Location> location, ValueRange operands,
                                      SmallVectorImpl<Type> &types, unsigned first = 0,
                                      Type element = {}) {
  SmallVector<int64_t> shape;
  for (auto [i, operand] : llvm::enumerate(operands)) {
    auto joined = broadcastShapes(shape, shapeOf(operand));
    if (!joined)
      return emitOptionalError(location, "C1: operand ", i, " of shape ",
                               shapeText(shapeOf(operand)), " does not broadcast with ",
                               shapeText(shape),
                               "; make the dimensions equal or 1, aligned at the last");
    shape = *joined;
    if (i >= first && elementOf(operand) != elementOf(operands[first]))
      return emitOptionalError(location, "C2: operand ", i, " has element type ",
                               elementOf(operand), ", expected ", elementOf(operands[first]),
                               "; cast it");
  }
  types.push_back(RankedTensorType::get(shape, element ? element : elementOf(operands[first])));
  return success();
}

static LogicalResult verifyLogical(Operation *op, ValueRange operands) {
  for (auto [i, operand] : llvm::enumerate(operands))
    if (!elementOf(operand).isInteger(1))
      return op->emitOpError("C3: operand ") << i << " has element type " << elementOf(operand)
                                             << ", expected i1; compare or cast it";
  return success();
}

#define INFER(OP, ...)                                                                             \
  LogicalResult OP::inferReturnTypes(MLIRContext *context, std::optional<Location> location,       \
                                     ValueRange operands, DictionaryAttr, OpaqueProperties,        \
                                     RegionRange, SmallVectorImpl<Type> &types) {                  \
    return inferElementwise(location, operands, types __VA_OPT__(, ) __VA_ARGS__);                 \
  }
// The remaining arguments are the rule's `linearIn`.
#define RULE(OP, ...)                                                                              \
  ShardingRule OP::getShardingRule() { return elementwiseRule(*this, LinearIn{__VA_ARGS__}); }

//===-- Evaluate ------------------------------------------------------------===//

// output[i...] = f(v), v[k] the element of inputs[k] (broadcast).
template <typename F> static void map(Inputs inputs, Tensor &output, F f) {
  std::vector<Strides> strides;
  for (const Tensor *input : inputs)
    strides.push_back(broadcastStrides(*input, output.shape));
  SmallVector<double, 4> values(inputs.size());
  double *out = output.data.data();
  if (llvm::all_of(inputs, [&](const Tensor *input) { return input->shape == output.shape; })) {
    for (int64_t i = 0; i < output.size(); ++i) {
      for (size_t k = 0; k < inputs.size(); ++k)
        values[k] = inputs[k]->data[i];
      out[i] = f(values.data());
    }
    return;
  }
  forEach(output.shape, strides, [&](const int64_t *offsets) {
    for (size_t k = 0; k < inputs.size(); ++k)
      values[k] = inputs[k]->data[offsets[k]];
    *out++ = f(values.data());
  });
}

// Integers are held as doubles; nothing is divided by 0.
static double quotient(double a, double b, bool real) {
  return real ? a / b : b == 0 ? 0 : std::trunc(a / b);
}
static double remainder(double a, double b, bool real) {
  return real || b != 0 ? std::fmod(a, b) : 0;
}

static double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

static constexpr double kSqrt2OverPi = 0.79788456080286535588;
static constexpr double kSqrtHalf = 0.70710678118654752440;
static constexpr double kCubic = 0.044715;

static double gelu(double x, GeluForm form) {
  if (form == GeluForm::erf)
    return 0.5 * x * (1 + std::erf(x * kSqrtHalf));
  return 0.5 * x * (1 + std::tanh(kSqrt2OverPi * (x + kCubic * x * x * x)));
}
static double geluSlope(double x, GeluForm form) {
  if (form == GeluForm::erf)
    return 0.5 * (1 + std::erf(x * kSqrtHalf)) + x * 0.5 * kSqrt2OverPi * std::exp(-0.5 * x * x);
  double t = std::tanh(kSqrt2OverPi * (x + kCubic * x * x * x));
  return 0.5 * (1 + t) +
         0.5 * x * (1 - t * t) * kSqrt2OverPi * (1 + 3 * kCubic * x * x);
}

static bool holds(Predicate predicate, double a, double b) {
  switch (predicate) {
  case Predicate::eq:
    return a == b;
  case Predicate::ne:
    return a != b;
  case Predicate::lt:
    return a < b;
  case Predicate::le:
    return a <= b;
  case Predicate::gt:
    return a > b;
  case Predicate::ge:
    return a >= b;
  }
  return false;
}

//===-- The ops -------------------------------------------------------------===//

#define EVALUATE(OP, VALUE)                                                                        \
  void OP::evaluate(Inputs inputs, Outputs outputs) {                                              \
    map(inputs, outputs[0], [&](const double *v) -> double {                                       \
      [[maybe_unused]] double x = v[0];                                                            \
      return VALUE;                                                                                \
    });                                                                                            \
  }
// GRADIENT may use b, the cotangent g, the operand's number i and the result y.
#define GRADIENT(OP, ...)                                                                          \
  LogicalResult OP::differentiate(OpBuilder &builder, ArrayRef<Value> cotangents,                  \
                                  SmallVectorImpl<Value> &gradients) {                             \
    [[maybe_unused]] Value y = getResult();                                                        \
    return flowBack(*this, builder, cotangents, gradients,                                         \
                    [&](Build &b, Value g, unsigned i) -> Value { return __VA_ARGS__; });          \
  }
#define NO_GRADIENT(OP)                                                                            \
  LogicalResult OP::differentiate(OpBuilder &, ArrayRef<Value>,                                    \
                                  SmallVectorImpl<Value> &gradients) {                             \
    return noGradient(*this, gradients);                                                           \
  }
#define NO_RULES(OP)                                                                               \
  LogicalResult OP::verify() { return success(); }

#define UNARY(OP, VALUE, ...)                                                                      \
  INFER(OP) NO_RULES(OP) EVALUATE(OP, VALUE) GRADIENT(OP, __VA_ARGS__)
#define BINARY(OP, VALUE, ...) UNARY(OP, VALUE, __VA_ARGS__)

BINARY(AddOp, v[0] + v[1], g)
RULE(AddOp, {0, 1})
BINARY(SubOp, v[0] - v[1], i == 0 ? g : b.neg(g))
RULE(SubOp, {0, 1})
BINARY(MulOp, v[0] * v[1], b.mul(g, i == 0 ? getRhs() : getLhs()))
RULE(MulOp, {0}, {1})
BINARY(DivOp, quotient(v[0], v[1], isFloat(getResult())),
       i == 0 ? b.div(g, getRhs()) : b.neg(b.div(b.mul(g, y), getRhs())))
RULE(DivOp, {0})
BINARY(RemOp, remainder(v[0], v[1], isFloat(getResult())),
       i == 0 ? g : b.neg(b.mul(g, b.div(b.sub(getLhs(), y), getRhs()))))
RULE(RemOp)

// An exponent of 0 has slope 0 and a base of 0 or below has no logarithm: zeros,
// not what 0 * inf gives.
static Value powerSlope(Build &b, unsigned i, Value base, Value exponent, Value y) {
  Value zero = b.constant(0, elementOf(base)), one = b.constant(1, elementOf(base));
  if (i == 1)
    return b.select(b.compare(base, zero, Predicate::gt),
                    b.mul(y, LogOp::create(b.builder, b.loc, base)), zero);
  Value less = PowerOp::create(b.builder, b.loc, base, b.sub(exponent, one));
  return b.select(b.compare(exponent, zero, Predicate::eq), zero, b.mul(exponent, less));
}
BINARY(PowerOp, std::pow(v[0], v[1]), b.mul(g, powerSlope(b, i, getLhs(), getRhs(), y)))
RULE(PowerOp)

// The cotangent where operand 0 (or, for i = 1, operand 1) was chosen.
static Value chosen(Build &b, Value g, unsigned i, Value lhs, Value rhs, Predicate predicate) {
  Value mask = b.compare(lhs, rhs, predicate), zero = b.constant(0, elementOf(g));
  return i == 0 ? b.select(mask, g, zero) : b.select(mask, zero, g);
}
BINARY(MaximumOp, std::max(v[0], v[1]), chosen(b, g, i, getLhs(), getRhs(), Predicate::ge))
RULE(MaximumOp)
BINARY(MinimumOp, std::min(v[0], v[1]), chosen(b, g, i, getLhs(), getRhs(), Predicate::le))
RULE(MinimumOp)

UNARY(NegOp, -x, b.neg(g))
RULE(NegOp, {0})
UNARY(AbsOp, std::abs(x), b.mul(g, SignOp::create(b.builder, b.loc, getOperand())))
RULE(AbsOp)
UNARY(SinOp, std::sin(x), b.mul(g, CosOp::create(b.builder, b.loc, getOperand())))
RULE(SinOp)
UNARY(CosOp, std::cos(x), b.neg(b.mul(g, SinOp::create(b.builder, b.loc, getOperand()))))
RULE(CosOp)

#define STEPS(OP, VALUE) INFER(OP) NO_RULES(OP) EVALUATE(OP, VALUE) NO_GRADIENT(OP) RULE(OP)
STEPS(SignOp, (x > 0) - (x < 0))
STEPS(FloorOp, std::floor(x))
STEPS(CeilOp, std::ceil(x))
STEPS(RoundOp, std::nearbyint(x)) // halves to even: nobody changes the rounding mode

UNARY(ExpOp, std::exp(x), b.mul(g, y))
RULE(ExpOp)
UNARY(LogOp, std::log(x), b.div(g, getOperand()))
RULE(LogOp)
UNARY(SqrtOp, std::sqrt(x), b.scale(b.div(g, y), 0.5))
RULE(SqrtOp)
UNARY(RsqrtOp, 1 / std::sqrt(x), b.scale(b.mul(g, b.mul(y, b.mul(y, y))), -0.5))
RULE(RsqrtOp)
UNARY(TanhOp, std::tanh(x), b.mul(g, b.oneMinus(b.mul(y, y))))
RULE(TanhOp)
UNARY(ErfOp, std::erf(x),
      b.scale(b.mul(g, b.exp(b.neg(b.mul(getOperand(), getOperand())))), 1.12837916709551257390))
RULE(ErfOp)
UNARY(SigmoidOp, sigmoid(x), b.mul(g, b.mul(y, b.oneMinus(y))))
RULE(SigmoidOp)
UNARY(SoftplusOp, std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))),
      b.mul(g, SigmoidOp::create(b.builder, b.loc, getOperand())))
RULE(SoftplusOp)
UNARY(ReluOp, x > 0 ? x : 0,
      b.select(b.compare(getOperand(), b.constant(0, elementOf(g)), Predicate::gt), g,
               b.constant(0, elementOf(g))))
RULE(ReluOp)

static Value powSlope(Build &b, Value x, double exponent) {
  if (exponent == 0 || exponent == 1)
    return b.constant(exponent, elementOf(x));
  Value power = x;
  if (exponent != 2)
    power = PowOp::create(b.builder, b.loc, x, APFloat(exponent - 1));
  return b.scale(power, exponent);
}
UNARY(PowOp, std::pow(x, getExponent().convertToDouble()),
      b.mul(g, powSlope(b, getOperand(), getExponent().convertToDouble())))
RULE(PowOp)
UNARY(GeluOp, gelu(x, getForm()),
      GeluGradOp::create(b.builder, b.loc, getOperand(), g, getForm()))
RULE(GeluOp)

INFER(GeluGradOp)
NO_RULES(GeluGradOp)
EVALUATE(GeluGradOp, v[1] * geluSlope(x, getForm()))
RULE(GeluGradOp)
LogicalResult GeluGradOp::differentiate(OpBuilder &, ArrayRef<Value>, SmallVectorImpl<Value> &) {
  return failure();
}

#define LOGICAL(OP, VALUE)                                                                         \
  INFER(OP) EVALUATE(OP, VALUE) NO_GRADIENT(OP) RULE(OP) LogicalResult OP::verify() {              \
    return verifyLogical(*this, (*this)->getOperands());                                           \
  }
LOGICAL(AndOp, v[0] != 0 && v[1] != 0)
LOGICAL(OrOp, v[0] != 0 || v[1] != 0)
LOGICAL(NotOp, x == 0)

INFER(CompareOp, 0, IntegerType::get(context, 1))
NO_RULES(CompareOp)
EVALUATE(CompareOp, holds(getPredicate(), v[0], v[1]))
NO_GRADIENT(CompareOp)
RULE(CompareOp)

INFER(SelectOp, 1)
LogicalResult SelectOp::verify() { return verifyLogical(*this, getCondition()); }
EVALUATE(SelectOp, v[0] != 0 ? v[1] : v[2])
GRADIENT(SelectOp, i == 0   ? Value()
                   : i == 1 ? b.select(getCondition(), g, b.constant(0, elementOf(g)))
                            : b.select(getCondition(), b.constant(0, elementOf(g)), g))
RULE(SelectOp, {1, 2})

//===-- cast ----------------------------------------------------------------===//

LogicalResult CastOp::verify() {
  if (shapeOf(getOperand()) != shapeOf(getResult()))
    return emitOpError("C1: result shape is ") << shapeText(shapeOf(getResult())) << ", expected "
                                               << shapeText(shapeOf(getOperand()))
                                               << ", the operand's";
  return success();
}
void CastOp::evaluate(Inputs inputs, Outputs outputs) {
  Type to = elementOf(getResult());
  bool toLogical = to.isInteger(1), isInteger = isa<IntegerType>(to);
  map(inputs, outputs[0], [&](const double *v) {
    return toLogical ? double(v[0] != 0) : isInteger ? toInt64(v[0]) : v[0];
  });
}
LogicalResult CastOp::differentiate(OpBuilder &builder, ArrayRef<Value> cotangents,
                                    SmallVectorImpl<Value> &gradients) {
  if (!isFloat(getResult()))
    return noGradient(*this, gradients);
  return flowBack(*this, builder, cotangents, gradients, [&](Build &b, Value g, unsigned) {
    return b.cast(g, elementOf(getOperand()));
  });
}
ShardingRule CastOp::getShardingRule() {
  bool linear = isFloat(getOperand()) && isFloat(getResult());
  return elementwiseRule(*this, linear ? LinearIn{{0}} : LinearIn{});
}
