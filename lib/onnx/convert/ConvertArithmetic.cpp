#include "lib/onnx/convert/Formula.h"
#include "llvm/ADT/StringMap.h"

#include <cmath>
#include <random>

using namespace llmc::onnximport;
using namespace llmc;
using namespace mlir;
using llmc::support::error;

namespace {

template <class Op>
ConvertResult binary(NodeAdaptor &call) {
  if (call.size() < 1)
    return error("needs operands");
  auto values = broadcastOperands(call, 0);
  if (!values)
    return values.takeError();
  if (graph::elementOf((*values)[0]).isInteger(1))
    return error("is not defined for booleans");
  Value out = (*values)[0];
  for (size_t i = 1; i < values->size(); ++i)
    out = make<Op>(call, out, (*values)[i]);
  return single(out);
}

template <class Op>
ConvertResult strictBinary(NodeAdaptor &call) {
  if (call.size() != 2)
    return error("needs two operands, got ", call.size());
  return binary<Op>(call);
}

ConvertResult convertMean(NodeAdaptor &call) {
  if (auto s = needFloats(call, std::max<size_t>(call.size(), 1)); !s)
    return s.takeError();
  auto sum = binary<graph::AddOp>(call);
  if (!sum)
    return sum;
  Value total = std::get<ComputedValue>((*sum)[0]).value;
  return single(call.build.mul(total, call.scalar(1.0 / call.size())));
}

// Converts a unary op on floats.
template <class Op>
ConvertResult unary(NodeAdaptor &call) {
  if (auto s = needFloats(call, 1); !s)
    return s.takeError();
  return single(make<Op>(call, call.value(0)));
}

// Converts a unary op on floats or integers.
template <class Op>
ConvertResult number(NodeAdaptor &call) {
  if (!call.has(0) || call.isBool(0))
    return error("needs an operand of numbers");
  return single(make<Op>(call, call.value(0)));
}

// Converts a rounding op, which leaves integers as they are.
template <class Op>
ConvertResult whole(NodeAdaptor &call) {
  if (!call.has(0) || call.isBool(0))
    return error("needs an operand of numbers");
  return single(call.isFloat(0) ? make<Op>(call, call.value(0)) : call.value(0));
}

ConvertResult convertReciprocal(NodeAdaptor &call) {
  if (auto s = needFloats(call, 1); !s)
    return s.takeError();
  return single(call.build.div(call.scalar(1), call.value(0)));
}

// Converts Pow; a single known exponent becomes an attribute. Integers are computed as floats.
ConvertResult convertPow(NodeAdaptor &call) {
  if (call.size() != 2 || !call.has(0) || !call.has(1) || call.isBool(0) || call.isBool(1))
    return error("needs a base and an exponent");
  auto shape = broadcastShapes(call.shape(0), call.shape(1));
  if (!shape)
    return error("shapes ", toText(call.shape(0)), " and ", toText(call.shape(1)),
                 " do not broadcast");
  const HostTensor *exponent = call.compact(1);
  Value base = floats(call, call.value(0)), power;
  if (exponent && exponent->size() == 1 && *shape == call.shape(0))
    power = make<graph::PowOp>(call, base,
                               call.build.builder.getF64FloatAttr(exponent->number(0)));
  else
    power = make<graph::PowerOp>(call, base, floats(call, call.value(1)));
  if (call.isFloat(0))
    return single(power);
  // The float power of integers may be off by a little, and is rounded.
  return single(integers(call, call.isFloat(1) ? power : make<graph::RoundOp>(call, power)));
}

// Converts Mod: with fmod the result has the sign of the dividend, else that of the divisor.
ConvertResult convertMod(NodeAdaptor &call) {
  auto rest = strictBinary<graph::RemOp>(call);
  if (!rest || call.node.integer("fmod", 0))
    return rest;
  graph::Build &build = call.build;
  Value r = std::get<ComputedValue>((*rest)[0]).value;
  Value divisor = r.getDefiningOp<graph::RemOp>().getRhs();
  Value zero = call.scalarLike(0, r);
  Value opposite = build.compare(build.mul(make<graph::SignOp>(call, r),
                                           make<graph::SignOp>(call, divisor)),
                                 zero, graph::Predicate::lt);
  return single(build.select(opposite, build.add(r, divisor), r));
}

// Converts Clip, with bounds as attributes (before 11) or operands; either may be absent.
ConvertResult convertClip(NodeAdaptor &call) {
  if (!call.has(0) || call.isBool(0))
    return error("needs an operand of numbers");
  Value x = call.value(0);
  for (int side = 0; side < 2; ++side) {
    const char *attribute = side ? "max" : "min";
    Value limit;
    if (call.has(1 + side)) {
      if (*countElements(call.shape(1 + side)) != 1 || call.element(1 + side) != call.element(0))
        return error("bounds must be scalars of the operand's type");
      limit = call.build.reshape(call.value(1 + side), {});
    } else if (call.node.has(attribute)) {
      limit = call.scalarLike(call.node.number(attribute, 0), x);
    } else {
      continue;
    }
    x = side ? minimum(call, x, limit) : maximum(call, x, limit);
  }
  return single(x);
}

ConvertResult convertIdentity(NodeAdaptor &call) {
  if (!call.has(0))
    return error("needs an operand");
  return single(call.value(0));
}

// Returns the elements that ONNX's reference implementation keeps with a seed: it draws uniform
// numbers of 53 bits from a Mersenne Twister, and keeps an element if its number is not below the
// ratio.
HostTensor keptBySeed(uint32_t seed, llvm::ArrayRef<int64_t> shape, double ratio) {
  std::mt19937 random(seed);
  HostTensor kept(Element::Bool, shape);
  for (int64_t &one : kept.ints) {
    double high = random() >> 5, low = random() >> 6;
    one = (high * 0x1p26 + low) * 0x1p-53 >= ratio;
  }
  return kept;
}

// Builds Dropout of an inference run in training mode: kept elements are scaled by 1 / (1 - ratio).
ConvertResult dropBySeed(NodeAdaptor &call, double ratio) {
  auto seed = call.node.integer("seed", 0);
  Shape shape = call.shape(0);
  if (ratio < 0 || ratio >= 1 || !call.isFloat(0) || *countElements(shape) > maxHostElements)
    return error("needs floats and a ratio of at least 0 and less than 1, got ", ratio);
  HostTensor kept = keptBySeed(static_cast<uint32_t>(seed), shape, ratio);
  graph::Build &build = call.build;
  Value x = call.value(0), mask = call.materialize(kept);
  Value scaled = build.mul(x, call.scalar(1 / (1 - ratio)));
  Value zero = build.broadcast(call.scalar(0), shape);
  return std::vector<Operand>{build.select(mask, scaled, zero), known(std::move(kept))};
}

// Converts Dropout of evaluation mode to the identity; refuses training mode but for inference
// with a seed.
ConvertResult convertDropout(NodeAdaptor &call) {
  const HostTensor *training = call.constant(2), *ratio = call.constant(1);
  bool keeps = ratio && ratio->size() == 1 && ratio->number(0) == 0;
  bool off = !call.has(2) || (training && training->size() == 1 && training->number(0) == 0);
  if (call.has(0) && !off && !keeps && call.isInference() && training && call.node.has("seed") &&
      (ratio ? ratio->size() == 1 : !call.has(1)))
    return dropBySeed(call, ratio ? ratio->number(0) : 0.5);
  if (!call.has(0) || (!off && !keeps))
    return error("in training mode is not supported without a seed, nor for training: export the "
                 "model in evaluation mode");
  HostTensor all(Element::Bool, Shape(call.shape(0).size(), 1));
  all.ints[0] = 1;
  KnownConstant mask = std::make_shared<const Constant>(std::move(all), call.shape(0));
  return std::vector<Operand>{call.value(0), mask};
}

} // namespace

ConvertFunction llmc::onnximport::findArithmeticConverter(llvm::StringRef op) {
  static const llvm::StringMap<ConvertFunction> table = {
      {"Add", strictBinary<graph::AddOp>},
      {"Sub", strictBinary<graph::SubOp>},
      {"Mul", strictBinary<graph::MulOp>},
      {"Div", strictBinary<graph::DivOp>},
      {"Mod", convertMod},
      {"Pow", convertPow},
      {"Sum", binary<graph::AddOp>},
      {"Mean", convertMean},
      {"Max", binary<graph::MaximumOp>},
      {"Min", binary<graph::MinimumOp>},
      {"Neg", number<graph::NegOp>},
      {"Abs", number<graph::AbsOp>},
      {"Sign", number<graph::SignOp>},
      {"Floor", whole<graph::FloorOp>},
      {"Ceil", whole<graph::CeilOp>},
      {"Round", whole<graph::RoundOp>},
      {"Exp", unary<graph::ExpOp>},
      {"Log", unary<graph::LogOp>},
      {"Sqrt", unary<graph::SqrtOp>},
      {"Sin", unary<graph::SinOp>},
      {"Cos", unary<graph::CosOp>},
      {"Tanh", unary<graph::TanhOp>},
      {"Erf", unary<graph::ErfOp>},
      {"Reciprocal", convertReciprocal},
      {"Clip", convertClip},
      {"Identity", convertIdentity},
      {"Dropout", convertDropout},
  };
  return table.lookup(op);
}
