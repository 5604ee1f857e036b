#include "lib/onnx/convert/Formula.h"
#include "llvm/ADT/StringMap.h"

#include <cmath>

using namespace llmc::onnximport;
using namespace llmc;
using namespace mlir;
using llmc::support::error;

namespace {

// Converts a function of one float operand.
template <Value (*formula)(NodeAdaptor &, Value)>
ConvertResult of(NodeAdaptor &call) {
  if (auto s = needFloats(call, 1); !s)
    return s.takeError();
  return single(formula(call, call.value(0)));
}

double alpha(NodeAdaptor &call, double fallback) { return call.node.number("alpha", fallback); }
double beta(NodeAdaptor &call, double fallback) { return call.node.number("beta", fallback); }

Value compareTo(NodeAdaptor &call, Value x, double limit, graph::Predicate predicate) {
  return call.build.compare(x, call.scalar(limit), predicate);
}

Value sigmoid(NodeAdaptor &call, Value x) { return make<graph::SigmoidOp>(call, x); }
Value relu(NodeAdaptor &call, Value x) { return make<graph::ReluOp>(call, x); }
Value magnitude(NodeAdaptor &call, Value x) { return make<graph::AbsOp>(call, x); }

Value softplus(NodeAdaptor &call, Value x) { return make<graph::SoftplusOp>(call, x); }

Value swish(NodeAdaptor &call, Value x) {
  double factor = alpha(call, 1);
  Value inside = factor == 1 ? x : call.build.mul(x, call.scalar(factor));
  return call.build.mul(x, sigmoid(call, inside));
}

Value hardSigmoidOf(NodeAdaptor &call, Value x, double slope, double shift) {
  graph::Build &b = call.build;
  Value line = b.add(b.mul(x, call.scalar(slope)), call.scalar(shift));
  return minimum(call, maximum(call, line, call.scalar(0)), call.scalar(1));
}
Value hardSigmoid(NodeAdaptor &call, Value x) {
  return hardSigmoidOf(call, x, alpha(call, 0.2), beta(call, 0.5));
}
Value hardSwish(NodeAdaptor &call, Value x) {
  return call.build.mul(x, hardSigmoidOf(call, x, 1.0 / 6, 0.5));
}

// Returns x above 0, else scale * (e^(x / width) - 1).
Value exponentialBelow(NodeAdaptor &call, Value x, double scale, double width) {
  graph::Build &b = call.build;
  Value low = minimum(call, x, call.scalar(0));
  low = width == 1 ? low : b.mul(low, call.scalar(1 / width));
  low = b.mul(b.sub(b.exp(low), call.scalar(1)), call.scalar(scale));
  return b.select(compareTo(call, x, 0, graph::Predicate::gt), x, low);
}
Value elu(NodeAdaptor &call, Value x) { return exponentialBelow(call, x, alpha(call, 1), 1); }
Value celu(NodeAdaptor &call, Value x) {
  double a = alpha(call, 1);
  return exponentialBelow(call, x, a, a);
}
Value selu(NodeAdaptor &call, Value x) {
  Value y = exponentialBelow(call, x, alpha(call, 1.67326319217681884765625), 1);
  return call.build.mul(y, call.scalar(call.node.number("gamma", 1.05070102214813232421875)));
}

Value leakyRelu(NodeAdaptor &call, Value x) {
  Value low = call.build.mul(x, call.scalar(alpha(call, 0.01)));
  return call.build.select(compareTo(call, x, 0, graph::Predicate::ge), x, low);
}
Value thresholdedRelu(NodeAdaptor &call, Value x) {
  return call.build.select(compareTo(call, x, alpha(call, 1), graph::Predicate::gt), x,
                           call.scalar(0));
}
Value mish(NodeAdaptor &call, Value x) {
  return call.build.mul(x, make<graph::TanhOp>(call, softplus(call, x)));
}
Value softsign(NodeAdaptor &call, Value x) {
  return call.build.div(x, call.build.add(magnitude(call, x), call.scalar(1)));
}

//===-- Trigonometric and hyperbolic ------------------------------------------===//

Value tangent(NodeAdaptor &call, Value x) {
  return call.build.div(make<graph::SinOp>(call, x), make<graph::CosOp>(call, x));
}
Value halfSum(NodeAdaptor &call, Value x, double sign) {
  graph::Build &b = call.build;
  Value other = b.mul(b.exp(b.neg(x)), call.scalar(sign));
  return b.mul(b.add(b.exp(x), other), call.scalar(0.5));
}
Value sinh(NodeAdaptor &call, Value x) { return halfSum(call, x, -1); }
Value cosh(NodeAdaptor &call, Value x) { return halfSum(call, x, 1); }

// Returns log(x + sqrt(x^2 + sign)), which is log(2 x) where the square would overflow.
Value logOfRoot(NodeAdaptor &call, Value x, double sign) {
  graph::Build &b = call.build;
  Value isLarge = compareTo(call, x, 1e9, graph::Predicate::gt);
  Value small = b.select(isLarge, call.scalar(2), x);
  Value root = make<graph::SqrtOp>(call, b.add(b.mul(small, small), call.scalar(sign)));
  Value log = make<graph::LogOp>(call, b.select(isLarge, x, b.add(small, root)));
  return b.add(log, b.select(isLarge, call.scalar(M_LN2), call.scalar(0)));
}
Value acosh(NodeAdaptor &call, Value x) { return logOfRoot(call, x, -1); }
Value asinh(NodeAdaptor &call, Value x) {
  return call.build.mul(make<graph::SignOp>(call, x), logOfRoot(call, magnitude(call, x), 1));
}
Value atanh(NodeAdaptor &call, Value x) {
  graph::Build &b = call.build;
  Value one = call.scalar(1), quotient = b.div(b.add(one, x), b.sub(one, x));
  return b.mul(make<graph::LogOp>(call, quotient), call.scalar(0.5));
}

// Takes 1 / x where |x| > 1, whose square cannot overflow, and halves the angle twice. This brings
// |x| below tan(pi / 16), where seven terms of the series are exact to a float.
Value arcTangent(NodeAdaptor &call, Value x) {
  graph::Build &b = call.build;
  Value one = call.scalar(1);
  Value isLarge = compareTo(call, magnitude(call, x), 1, graph::Predicate::gt);
  Value right = b.mul(make<graph::SignOp>(call, x), call.scalar(M_PI / 2));
  x = b.div(b.select(isLarge, one, x), b.select(isLarge, x, one));
  for (int i = 0; i < 2; ++i) {
    Value root = make<graph::SqrtOp>(call, b.add(b.mul(x, x), one));
    x = b.div(x, b.add(root, one));
  }
  Value square = b.mul(x, x), sum = call.scalar(1.0 / 13);
  for (int k = 11; k >= 1; k -= 2)
    sum = b.sub(call.scalar(1.0 / k), b.mul(sum, square));
  Value angle = b.mul(b.mul(sum, x), call.scalar(4));
  return b.select(isLarge, b.sub(right, angle), angle);
}
// Returns 2 atan(x / (1 + sqrt(1 - x^2))).
Value arcSine(NodeAdaptor &call, Value x) {
  graph::Build &b = call.build;
  Value one = call.scalar(1), root = make<graph::SqrtOp>(call, b.sub(one, b.mul(x, x)));
  return b.mul(arcTangent(call, b.div(x, b.add(one, root))), call.scalar(2));
}
Value arcCosine(NodeAdaptor &call, Value x) {
  return call.build.sub(call.scalar(M_PI / 2), arcSine(call, x));
}

//===-- With attributes to check, or more operands ----------------------------===//

ConvertResult convertGelu(NodeAdaptor &call) {
  std::string form = call.node.text("approximate", "none");
  if (!call.isFloat(0) || (form != "none" && form != "tanh"))
    return error("needs a float operand, and approximate = none or tanh, got ", form);
  return single(make<graph::GeluOp>(
      call, call.value(0), form == "tanh" ? graph::GeluForm::tanh : graph::GeluForm::erf));
}

ConvertResult convertPRelu(NodeAdaptor &call) {
  if (auto s = needFloats(call, 2); !s)
    return s.takeError();
  auto shape = broadcastShapes(call.shape(0), call.shape(1));
  if (!shape || *shape != call.shape(0))
    return error("slope of shape ", toText(call.shape(1)), " does not broadcast to ",
                 toText(call.shape(0)));
  Value x = call.value(0), low = call.build.mul(x, call.value(1, UseKind::Scale));
  return single(call.build.select(compareTo(call, x, 0, graph::Predicate::lt), low, x));
}

ConvertResult convertShrink(NodeAdaptor &call) {
  if (!call.has(0) || call.isBool(0))
    return error("needs an operand of numbers");
  graph::Build &b = call.build;
  double limit = call.node.number("lambd", 0.5), bias = call.node.number("bias", 0);
  Value x = call.value(0), zero = call.scalarLike(0, x);
  Value f = floats(call, x);
  Value high = b.sub(f, call.scalar(bias)), low = b.add(f, call.scalar(bias));
  Value out = b.select(compareTo(call, f, limit, graph::Predicate::gt), high,
                       b.select(compareTo(call, f, -limit, graph::Predicate::lt), low,
                                call.scalar(0)));
  return single(b.cast(out, graph::elementOf(zero)));
}

ConvertResult convertSwiglu(NodeAdaptor &call) {
  if (auto s = needFloats(call, 2); !s)
    return s.takeError();
  if (call.shape(0) != call.shape(1))
    return error("shapes ", toText(call.shape(0)), " and ", toText(call.shape(1)), " differ");
  return single(call.build.mul(swish(call, call.value(0)), call.value(1)));
}

} // namespace

ConvertFunction llmc::onnximport::findActivationConverter(llvm::StringRef op) {
  static const llvm::StringMap<ConvertFunction> table = {
      {"Sigmoid", of<sigmoid>},
      {"Relu", of<relu>},
      {"Softplus", of<softplus>},
      {"Swish", of<swish>},
      {"SwiGLU", convertSwiglu},
      {"HardSigmoid", of<hardSigmoid>},
      {"HardSwish", of<hardSwish>},
      {"Elu", of<elu>},
      {"Celu", of<celu>},
      {"Selu", of<selu>},
      {"LeakyRelu", of<leakyRelu>},
      {"ThresholdedRelu", of<thresholdedRelu>},
      {"PRelu", convertPRelu},
      {"Mish", of<mish>},
      {"Softsign", of<softsign>},
      {"Shrink", convertShrink},
      {"Gelu", convertGelu},
      {"Tan", of<tangent>},
      {"Sinh", of<sinh>},
      {"Cosh", of<cosh>},
      {"Asinh", of<asinh>},
      {"Acosh", of<acosh>},
      {"Atanh", of<atanh>},
      {"Atan", of<arcTangent>},
      {"Asin", of<arcSine>},
      {"Acos", of<arcCosine>},
  };
  return table.lookup(op);
}
