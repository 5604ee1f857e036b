#include "lib/onnx/Conversion.h"
#include "llvm/ADT/StringMap.h"

using namespace llmc::onnximport;
using namespace llmc;
using namespace mlir;
using llmc::support::error;

namespace {

// A norm over the last dim, with vectors of that dim as operands from the second on.
support::Status checkNorm(Call &call, size_t vectors) {
  if (!call.has(0) || !call.has(1) || !call.isFloat(0))
    return error("needs a float operand and a scale");
  Shape shape = call.shape(0);
  auto axis = normalAxis(call.node.integer("axis", -1), shape.size());
  if (!axis || *axis != static_cast<int64_t>(shape.size()) - 1)
    return error("axis ", call.node.integer("axis", -1), " of shape ", toText(shape),
                 " is not supported: the last one is");
  for (size_t i = 1; i <= vectors; ++i)
    if (call.has(i) && (call.shape(i) != Shape{shape.back()} || !call.isFloat(i)))
      return error("operand ", i, " has shape ", toText(call.shape(i)), ", needs [",
                   shape.back(), "]");
  if (!(call.node.number("epsilon", 1e-5) > 0))
    return error("epsilon must be positive, got ", call.node.number("epsilon", 1e-5));
  return support::ok();
}

Value vectorOf(Call &call, size_t i, Role role, double otherwise) {
  if (call.has(i))
    return call.value(i, role);
  HostTensor filled(Element::F32, {call.shape(0).back()});
  std::fill(filled.floats.begin(), filled.floats.end(), otherwise);
  return call.materialize(filled);
}

ConvertResult convertLayerNorm(Call &call) {
  if (auto s = checkNorm(call, 2); !s)
    return s.takeError();
  for (int i = 1; i < call.node.proto->output_size(); ++i)
    if (!call.node.proto->output(i).empty())
      return error("the outputs Mean and InvStdDev are not supported");
  Value x = call.value(0);
  auto rows = RankedTensorType::get(graph::shapeOf(x).drop_back(), graph::elementOf(x));
  auto norm = graph::LayerNormOp::create(
      call.build.builder, call.build.loc, x.getType(), rows, rows, x,
      vectorOf(call, 1, Role::Scale, 1), vectorOf(call, 2, Role::Bias, 0),
      call.build.builder.getF64FloatAttr(call.node.number("epsilon", 1e-5)));
  return single(norm.getY());
}

// x * rsqrt(mean(x^2) + eps) * scale
ConvertResult convertRmsNorm(Call &call) {
  if (auto s = checkNorm(call, 1); !s)
    return s.takeError();
  graph::Build &build = call.build;
  Value x = call.value(0);
  Shape rows(graph::shapeOf(x).drop_back());
  int64_t width = graph::shapeOf(x).back();
  rows.push_back(1);
  Value squares = build.reduce(x, graph::ReduceKind::sum_squares,
                               {static_cast<int64_t>(rows.size()) - 1});
  Value mean = build.mul(squares, call.scalar(1.0 / width));
  Value eps = call.scalar(call.node.number("epsilon", 1e-5));
  Value rstd = graph::RsqrtOp::create(build.builder, build.loc, build.add(mean, eps));
  Value normal = build.mul(x, build.reshape(rstd, rows));
  return single(build.mul(normal, vectorOf(call, 1, Role::Scale, 1)));
}

} // namespace

ConvertFunction llmc::onnximport::findNormConverter(llvm::StringRef op) {
  static const llvm::StringMap<ConvertFunction> table = {
      {"LayerNormalization", convertLayerNorm},
      {"RMSNormalization", convertRmsNorm},
      // Written by exporters into the standard domain, though it is not in it.
      {"SimplifiedLayerNormalization", convertRmsNorm},
  };
  return table.lookup(op);
}
