#include "lib/onnx/convert/Norms.h"
#include "llvm/ADT/StringMap.h"

using namespace llmc::onnximport;
using namespace llmc;
using namespace mlir;
using llmc::support::error;
using llmc::support::Result;

Result<Value> llmc::onnximport::normVector(NodeAdaptor &call, size_t i,
                                           llvm::ArrayRef<int64_t> normal, UseKind role,
                                           double otherwise) {
  int64_t width = *countElements(normal);
  if (!call.has(i) || call.isPlaceholderOperand(i, otherwise)) {
    HostTensor filled(Element::F32, {width});
    std::fill(filled.floats.begin(), filled.floats.end(), otherwise);
    return call.materialize(filled);
  }
  Shape own = call.shape(i);
  auto joined = broadcastShapes(own, normal);
  llvm::ArrayRef<int64_t> tail(own);
  while (tail.size() > normal.size() && tail.front() == 1)
    tail = tail.drop_front();
  if (!call.isFloat(i) || !joined || tail.size() > normal.size())
    return error("operand ", i, " of shape ", toText(own), " does not broadcast to ",
                 toText(normal));
  Value v = call.build.reshape(call.value(i, role), tail);
  return call.build.reshape(call.build.broadcast(v, normal), {width});
}

Normalized llmc::onnximport::layerNorm(NodeAdaptor &call, Value x, Value scale, Value bias,
                                       double epsilon) {
  auto rows = RankedTensorType::get(graph::shapeOf(x).drop_back(), graph::elementOf(x));
  auto norm = graph::LayerNormOp::create(call.build.builder, call.build.loc, x.getType(), rows,
                                         rows, x, scale, bias,
                                         call.build.builder.getF64FloatAttr(epsilon));
  return {norm.getY(), norm.getMean(), norm.getRstd()};
}

Normalized llmc::onnximport::rmsNorm(NodeAdaptor &call, Value x, Value scale, double epsilon) {
  auto rows = RankedTensorType::get(graph::shapeOf(x).drop_back(), graph::elementOf(x));
  auto norm = graph::RmsNormOp::create(call.build.builder, call.build.loc, x.getType(), rows, x,
                                       scale, call.build.builder.getF64FloatAttr(epsilon));
  return {norm.getY(), Value(), norm.getRstd()};
}

namespace {

// Holds x with the dims from the axis on collapsed into one.
struct Rows {
  Value x;
  Shape normal; // those dims
  Shape kept;   // x's shape with 1 for them
};

Result<Rows> rowsOf(NodeAdaptor &call) {
  if (!call.isFloat(0) || !call.has(1))
    return error("needs a float operand and a scale");
  Shape shape = call.shape(0);
  auto axis = normalAxis(call.node.integer("axis", -1), shape.size());
  if (!axis)
    return error("axis ", call.node.integer("axis", -1), " is not one of ", shape.size(), " dims");
  double epsilon = call.node.number("epsilon", 1e-5);
  if (!(epsilon >= 0))
    return error("epsilon must be positive, got ", epsilon);
  llvm::ArrayRef<int64_t> dims(shape);
  Rows rows;
  rows.normal.assign(dims.begin() + *axis, dims.end());
  rows.kept.assign(dims.begin(), dims.begin() + *axis);
  Shape flat = rows.kept;
  flat.push_back(*countElements(rows.normal));
  rows.kept.append(rows.normal.size(), 1);
  rows.x = call.build.reshape(call.value(0), flat);
  return rows;
}

ConvertResult convertLayerNorm(NodeAdaptor &call) {
  auto rows = rowsOf(call);
  if (!rows)
    return rows.takeError();
  double epsilon = call.node.number("epsilon", 1e-5);
  if (!(epsilon > 0))
    return error("epsilon must be positive, got ", epsilon);
  auto scale = normVector(call, 1, rows->normal, UseKind::Scale, 1);
  auto bias = normVector(call, 2, rows->normal, UseKind::Bias, 0);
  if (!scale)
    return scale.takeError();
  if (!bias)
    return bias.takeError();
  Normalized out = layerNorm(call, rows->x, *scale, *bias, epsilon);
  graph::Build &b = call.build;
  return std::vector<Operand>{b.reshape(out.y, call.shape(0)), b.reshape(out.mean, rows->kept),
                              b.reshape(out.rstd, rows->kept)};
}

ConvertResult convertRmsNorm(NodeAdaptor &call) {
  auto rows = rowsOf(call);
  if (!rows)
    return rows.takeError();
  auto scale = normVector(call, 1, rows->normal, UseKind::Scale, 1);
  if (!scale)
    return scale.takeError();
  Normalized out = rmsNorm(call, rows->x, *scale, call.node.number("epsilon", 1e-5));
  return std::vector<Operand>{call.build.reshape(out.y, call.shape(0)),
                              call.build.reshape(out.rstd, rows->kept)};
}

// Returns operand `i`, a vector over the channels (dim 1), so that it broadcasts against x.
Result<Value> channels(NodeAdaptor &call, size_t i) {
  Shape shape = call.shape(0), wide(shape.size(), 1);
  if (!call.isFloat(i) || shape.size() < 2 || call.shape(i) != Shape{shape[1]})
    return error("operand ", i, " must be one float a channel of ", toText(shape));
  wide[1] = shape[1];
  return call.build.reshape(call.value(i), wide);
}

// Normalizes x over each group of channels and all later dims; then scales and shifts by channel.
ConvertResult overChannels(NodeAdaptor &call, int64_t groups) {
  auto scale = channels(call, 1), bias = channels(call, 2);
  if (!scale)
    return scale.takeError();
  if (!bias)
    return bias.takeError();
  Shape shape = call.shape(0);
  double epsilon = call.node.number("epsilon", 1e-5);
  int64_t all = *countElements(shape);
  if (groups < 1 || shape[1] % groups || !(epsilon > 0) || all == 0)
    return error(shape[1], " channels are not divisible into ", groups, " groups");
  Value x = call.build.reshape(call.value(0), {shape[0], groups, all / shape[0] / groups});
  int64_t width = graph::shapeOf(x)[2];
  HostTensor ones(Element::F32, {width}), zeros(Element::F32, {width});
  std::fill(ones.floats.begin(), ones.floats.end(), 1);
  Value y = layerNorm(call, x, call.materialize(ones), call.materialize(zeros), epsilon).y;
  y = call.build.reshape(y, shape);
  return single(call.build.add(call.build.mul(y, *scale), *bias));
}

ConvertResult convertInstanceNorm(NodeAdaptor &call) {
  if (!call.isFloat(0) || call.shape(0).size() < 2)
    return error("needs floats of two dims or more");
  return overChannels(call, call.shape(0)[1]);
}

// Converts GroupNormalization with one scale per channel (opset 21 and later); one per group, as
// before, is refused unless each channel is a group.
ConvertResult convertGroupNorm(NodeAdaptor &call) {
  if (!call.isFloat(0) || call.shape(0).size() < 2)
    return error("needs floats of two dims or more");
  return overChannels(call, call.node.integer("num_groups", 0));
}

ConvertResult convertMeanVariance(NodeAdaptor &call) {
  if (auto s = needFloats(call, 1); !s)
    return s.takeError();
  auto given = axesOf(call.node, nullptr, call.shape(0).size());
  if (!given)
    return given.takeError();
  if (given->empty() && call.shape(0).size() < 4)
    return error("needs axes where there are not four dims");
  Shape axes = given->empty() ? Shape{0, 2, 3} : *given;
  graph::Build &b = call.build;
  Value x = call.value(0), centred = b.sub(x, meanKept(call, x, axes));
  Value variance = meanKept(call, b.mul(centred, centred), axes);
  Value spread = b.add(make<graph::SqrtOp>(call, variance), call.scalar(1e-9));
  return single(b.div(centred, spread));
}

// Normalizes with the statistics that the file stores; refuses training mode.
ConvertResult convertBatchNorm(NodeAdaptor &call) {
  if (!call.isFloat(0) || call.node.integer("training_mode", 0))
    return error("in training mode is not supported: export the model in evaluation mode");
  std::vector<Value> v;
  for (size_t i = 1; i <= 4; ++i) {
    auto vector = channels(call, i);
    if (!vector)
      return vector.takeError();
    v.push_back(*vector);
  }
  graph::Build &b = call.build;
  Value epsilon = call.scalar(call.node.number("epsilon", 1e-5));
  Value rstd = make<graph::RsqrtOp>(call, b.add(v[3], epsilon));
  Value normal = b.mul(b.sub(call.value(0), v[2]), rstd);
  return single(b.add(b.mul(normal, v[0]), v[1]));
}

} // namespace

ConvertFunction llmc::onnximport::findNormConverter(llvm::StringRef op) {
  static const llvm::StringMap<ConvertFunction> table = {
      {"LayerNormalization", convertLayerNorm},
      {"RMSNormalization", convertRmsNorm},
      // Exporters write this op into the standard domain, though that lacks it.
      {"SimplifiedLayerNormalization", convertRmsNorm},
      {"InstanceNormalization", convertInstanceNorm},
      {"GroupNormalization", convertGroupNorm},
      {"MeanVarianceNormalization", convertMeanVariance},
      {"BatchNormalization", convertBatchNorm},
  };
  return table.lookup(op);
}
