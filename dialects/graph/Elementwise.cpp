// Implements the elementwise ops. One line per op defines its value and its gradient.
#include "dialects/graph/Detail.h"

#include <cmath>

using namespace mlir;
using namespace llmc::graph;

//===-- Types ---------------------------------------------------------------===//

// Infers the result type; checks C1 and C2. `first` is the first operand of the common element
// type.
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
// Defines getShardingRule; the remaining arguments are the rule's `linearIn`.
#define RULE(OP, ...)                                                                              \
  ShardingRule OP::getShardingRule() { return elementwiseRule(*this, LinearIn{__VA_ARGS__}); }

//===-- Evaluate ------------------------------------------------------------===//

// Computes output[i...] = f(v), where v[k] is the element of inputs[k] (broadcast).
template <typename T, typename F>
static void map(Inputs<T> inputs, TensorOf<T> &output, F f) {
  std::vector<Strides> strides;
  for (const TensorOf<T> *input : inputs)
    strides.push_back(broadcastStrides(input->shape, output.shape));
  SmallVector<T, 4> values(inputs.size());
  T *out = output.data.data();
  if (llvm::all_of(inputs, [&](const auto *input) { return input->shape == output.shape; })) {
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

// Divides. Integers, which are held as doubles, round toward zero and give 0 where b is 0.
template <typename T> static T quotient(T a, T b, bool real) {
  if (real)
    return a / b;
  return valueOf(b) == 0 ? 0 : std::trunc(valueOf(a) / valueOf(b));
}
template <typename T> static T remainder(T a, T b, bool real) {
  return real || valueOf(b) != 0 ? fmod(a, b) : T(0);
}

template <typename T> static T sigmoid(T x) {
  T e = exp(-fabs(x)); // never overflows
  return (valueOf(x) < 0 ? e : T(1)) / (1.0 + e);
}

static constexpr double kSqrt2OverPi = 0.79788456080286535588;
static constexpr double kSqrtHalf = 0.70710678118654752440;
static constexpr double kCubic = 0.044715;

template <typename T> static T gelu(T x, GeluForm form) {
  if (form == GeluForm::erf)
    return 0.5 * x * (1.0 + erf(x * kSqrtHalf));
  return 0.5 * x * (1.0 + tanh(kSqrt2OverPi * (x + kCubic * x * x * x)));
}
template <typename T> static T geluSlope(T x, GeluForm form) {
  if (form == GeluForm::erf)
    return 0.5 * (1.0 + erf(x * kSqrtHalf)) + x * 0.5 * kSqrt2OverPi * exp(-0.5 * x * x);
  T t = tanh(kSqrt2OverPi * (x + kCubic * x * x * x));
  return 0.5 * (1.0 + t) +
         0.5 * x * (1.0 - t * t) * kSqrt2OverPi * (1.0 + 3 * kCubic * x * x);
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
  template <typename T> static void meaning(OP op, Inputs<T> inputs, Outputs<T> outputs) {         \
    map(inputs, outputs[0], [&](const T *v) -> T {                                                 \
      [[maybe_unused]] T x = v[0];                                                                 \
      return VALUE;                                                                                \
    });                                                                                            \
  }                                                                                                \
  LLMC_EVALUATE(OP)
// Defines differentiate: GRADIENT may use b, the cotangent g, the operand's number i and the result
// y.
#define GRADIENT(OP, ...)                                                                          \
  LogicalResult OP::differentiate(OpBuilder &builder, ArrayRef<Value> cotangents,                  \
                                  SmallVectorImpl<Value> &gradients) {                             \
    [[maybe_unused]] Value y = getResult();                                                        \
    return setOperandCotangents(                                                                   \
        *this, builder, cotangents, gradients,                                                     \
        [&](Build &b, Value g, unsigned i) -> Value { return __VA_ARGS__; });                      \
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
BINARY(DivOp, quotient(v[0], v[1], isFloat(op.getResult())),
       i == 0 ? b.div(g, getRhs()) : b.neg(b.div(b.mul(g, y), getRhs())))
RULE(DivOp, {0})
BINARY(RemOp, remainder(v[0], v[1], isFloat(op.getResult())),
       i == 0 ? g : b.neg(b.mul(g, b.div(b.sub(getLhs(), y), getRhs()))))
RULE(RemOp)

// Returns the derivative of base ^ exponent by operand i. Where the exponent is 0, or the base has
// no logarithm (0 or below), it selects zero, since a product would give 0 * inf.
static Value powerSlope(Build &b, unsigned i, Value base, Value exponent, Value y) {
  Value zero = b.constant(0, elementOf(base)), one = b.constant(1, elementOf(base));
  if (i == 1)
    return b.select(b.compare(base, zero, Predicate::gt),
                    b.mul(y, LogOp::create(b.builder, b.loc, base)), zero);
  Value less = PowerOp::create(b.builder, b.loc, base, b.sub(exponent, one));
  return b.select(b.compare(exponent, zero, Predicate::eq), zero, b.mul(exponent, less));
}
BINARY(PowerOp, pow(v[0], v[1]), b.mul(g, powerSlope(b, i, getLhs(), getRhs(), y)))
RULE(PowerOp)

// Returns the cotangent where operand 0 (or, for i = 1, operand 1) was chosen, else zero.
static Value cotangentIf(Build &b, Value g, unsigned i, Value lhs, Value rhs, Predicate predicate) {
  Value mask = b.compare(lhs, rhs, predicate), zero = b.constant(0, elementOf(g));
  return i == 0 ? b.select(mask, g, zero) : b.select(mask, zero, g);
}
BINARY(MaximumOp, maximum(v[0], v[1]), cotangentIf(b, g, i, getLhs(), getRhs(), Predicate::ge))
RULE(MaximumOp)
BINARY(MinimumOp, minimum(v[0], v[1]), cotangentIf(b, g, i, getLhs(), getRhs(), Predicate::le))
RULE(MinimumOp)

UNARY(NegOp, -x, b.neg(g))
RULE(NegOp, {0})
UNARY(AbsOp, fabs(x), b.mul(g, SignOp::create(b.builder, b.loc, getOperand())))
RULE(AbsOp)
UNARY(SinOp, sin(x), b.mul(g, CosOp::create(b.builder, b.loc, getOperand())))
RULE(SinOp)
UNARY(CosOp, cos(x), b.neg(b.mul(g, SinOp::create(b.builder, b.loc, getOperand()))))
RULE(CosOp)

#define STEPS(OP, VALUE) INFER(OP) NO_RULES(OP) EVALUATE(OP, VALUE) NO_GRADIENT(OP) RULE(OP)
STEPS(SignOp, step([](double a) { return (a > 0) - (a < 0); }, x))
STEPS(FloorOp, step([](double a) { return std::floor(a); }, x))
STEPS(CeilOp, step([](double a) { return std::ceil(a); }, x))
// Rounds halves to even: nothing changes the rounding mode.
STEPS(RoundOp, step([](double a) { return std::nearbyint(a); }, x))

UNARY(ExpOp, exp(x), b.mul(g, y))
RULE(ExpOp)
UNARY(LogOp, log(x), b.div(g, getOperand()))
RULE(LogOp)
UNARY(SqrtOp, sqrt(x), b.scale(b.div(g, y), 0.5))
RULE(SqrtOp)
UNARY(RsqrtOp, 1.0 / sqrt(x), b.scale(b.mul(g, b.mul(y, b.mul(y, y))), -0.5))
RULE(RsqrtOp)
UNARY(TanhOp, tanh(x), b.mul(g, b.oneMinus(b.mul(y, y))))
RULE(TanhOp)
UNARY(ErfOp, erf(x),
      b.scale(b.mul(g, b.exp(b.neg(b.mul(getOperand(), getOperand())))), 1.12837916709551257390))
RULE(ErfOp)
UNARY(SigmoidOp, sigmoid(x), b.mul(g, b.mul(y, b.oneMinus(y))))
RULE(SigmoidOp)
UNARY(SoftplusOp, maximum(x, T(0)) + log1p(exp(-fabs(x))),
      b.mul(g, SigmoidOp::create(b.builder, b.loc, getOperand())))
RULE(SoftplusOp)
UNARY(ReluOp, maximum(T(0), x),
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
UNARY(PowOp, pow(x, T(op.getExponent().convertToDouble())),
      b.mul(g, powSlope(b, getOperand(), getExponent().convertToDouble())))
RULE(PowOp)
UNARY(GeluOp, gelu(x, op.getForm()),
      GeluGradOp::create(b.builder, b.loc, getOperand(), g, getForm()))
RULE(GeluOp)

INFER(GeluGradOp)
NO_RULES(GeluGradOp)
EVALUATE(GeluGradOp, v[1] * geluSlope(x, op.getForm()))
RULE(GeluGradOp)
LogicalResult GeluGradOp::differentiate(OpBuilder &, ArrayRef<Value>, SmallVectorImpl<Value> &) {
  return failure();
}

// Returns 1 or 0; the error of a Bounded `x` is kept, so that what was undecided stays so.
template <typename T> static T isTrue(T x) {
  return step([](double a) { return double(a != 0); }, x);
}
static Bounded isTrue(Bounded x) { return {double(x.value != 0), x.error}; }

#define LOGICAL(OP, VALUE)                                                                         \
  INFER(OP) EVALUATE(OP, VALUE) NO_GRADIENT(OP) RULE(OP) LogicalResult OP::verify() {              \
    return verifyLogical(*this, (*this)->getOperands());                                           \
  }
LOGICAL(AndOp, minimum(isTrue(v[0]), isTrue(v[1])))
LOGICAL(OrOp, maximum(isTrue(v[0]), isTrue(v[1])))
LOGICAL(NotOp, chosen(isTrue(x), T(0), T(1)))

INFER(CompareOp, 0, IntegerType::get(context, 1))
NO_RULES(CompareOp)
EVALUATE(CompareOp,
         compared([&](double a, double b) { return holds(op.getPredicate(), a, b); }, v[0], v[1]))
NO_GRADIENT(CompareOp)
RULE(CompareOp)

INFER(SelectOp, 1)
LogicalResult SelectOp::verify() { return verifyLogical(*this, getCondition()); }
EVALUATE(SelectOp, chosen(v[0], v[1], v[2]))
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
template <typename T>
static void meaning(CastOp op, Inputs<T> inputs, Outputs<T> outputs) {
  Type to = elementOf(op.getResult());
  bool toLogical = to.isInteger(1), isInteger = isa<IntegerType>(to);
  map(inputs, outputs[0], [&](const T *v) -> T {
    if (toLogical)
      return isTrue(v[0]);
    return isInteger ? step([](double x) { return double(toInt64(x)); }, v[0]) : v[0];
  });
}
LLMC_EVALUATE(CastOp)
LogicalResult CastOp::differentiate(OpBuilder &builder, ArrayRef<Value> cotangents,
                                    SmallVectorImpl<Value> &gradients) {
  if (!isFloat(getResult()))
    return noGradient(*this, gradients);
  return setOperandCotangents(
      *this, builder, cotangents, gradients,
      [&](Build &b, Value g, unsigned) { return b.cast(g, elementOf(getOperand())); });
}
// Lets partial sums pass where no digit is lost: the sum of rounded terms is not the rounded sum.
ShardingRule CastOp::getShardingRule() {
  bool widens = isFloat(getOperand()) && isFloat(getResult()) &&
                elementOf(getOperand()).getIntOrFloatBitWidth() <=
                    elementOf(getResult()).getIntOrFloatBitWidth();
  return elementwiseRule(*this, widens ? LinearIn{{0}} : LinearIn{});
}
PrecisionRule CastOp::getPrecisionRule() { return {{Precision::Given}, {Precision::Given}}; }
