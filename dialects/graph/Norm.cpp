// Implements layer_norm, rms_norm and their gradients.
#include "dialects/graph/Detail.h"

#include <cmath>

using namespace mlir;
using namespace llmc::graph;

static LogicalResult verifyRank(Operation *op, Value x) {
  if (shapeOf(x).empty())
    return op->emitOpError("C1: x is a scalar, expected a last dimension");
  return success();
}
static LogicalResult verifyType(Operation *op, StringRef rule, StringRef name, Value value,
                                Value x) {
  if (value.getType() != x.getType())
    return op->emitOpError() << rule << ": " << name << " has type " << value.getType()
                             << ", expected x's, " << x.getType();
  return success();
}

// Adds the factors of x to `rule`: those of the rows, then that of the last dimension.
static std::pair<TensorFactors, DimFactors> xFactors(ShardingRule &rule, Value x, FactorKind rows,
                                                     FactorKind last) {
  TensorFactors factors = addFactors(rule, shapeOf(x).drop_back(), rows);
  return {factors, DimFactors{rule.addFactor(shapeOf(x).back(), last)}};
}
static TensorFactors joined(TensorFactors rows, DimFactors last) {
  rows.push_back(std::move(last));
  return rows;
}

//===-- layer_norm ----------------------------------------------------------===//

LogicalResult LayerNormOp::verify() {
  if (failed(verifyRank(*this, getX())))
    return failure();
  ArrayRef<int64_t> shape = shapeOf(getX());
  if (failed(verifyShape(*this, "C1", "scale", getScale(), shape.take_back())) ||
      failed(verifyShape(*this, "C1", "bias", getBias(), shape.take_back())))
    return failure();
  if (!(getEps().convertToDouble() > 0))
    return emitOpError("C2: eps is ") << getEps().convertToDouble() << ", expected more than 0";
  if (failed(verifyType(*this, "C3", "y", getY(), getX())) ||
      failed(verifyShape(*this, "C3", "mean", getMean(), shape.drop_back())) ||
      failed(verifyShape(*this, "C3", "rstd", getRstd(), shape.drop_back())))
    return failure();
  return success();
}
ShardingRule LayerNormOp::getShardingRule() {
  ShardingRule rule;
  auto [rows, last] = xFactors(rule, getX(), FactorKind::Parallel, FactorKind::Replicated);
  rule.operands = {joined(rows, last), {last}, {last}};
  rule.results = {joined(rows, last), rows, rows};
  return rule;
}
template <typename T>
static void meaning(LayerNormOp op, Inputs<T> inputs, Outputs<T> outputs) {
  int64_t width = inputs[0]->shape.back();
  const TensorOf<T> &scale = *inputs[1], &bias = *inputs[2];
  double eps = op.getEps().convertToDouble();
  for (int64_t row = 0; row < outputs[1].size(); ++row) {
    const T *x = inputs[0]->data.data() + row * width;
    T sum = 0, squares = 0;
    for (int64_t i = 0; i < width; ++i)
      accumulate(sum, x[i], width);
    T mean = sum / width;
    for (int64_t i = 0; i < width; ++i)
      accumulate(squares, (x[i] - mean) * (x[i] - mean), width);
    T rstd = 1 / sqrt(squares / width + eps);
    for (int64_t i = 0; i < width; ++i)
      outputs[0].data[row * width + i] = (x[i] - mean) * rstd * scale.data[i] + bias.data[i];
    outputs[1].data[row] = mean;
    outputs[2].data[row] = rstd;
  }
}
LLMC_EVALUATE(LayerNormOp)
LogicalResult LayerNormOp::differentiate(OpBuilder &builder, ArrayRef<Value> cotangents,
                                         SmallVectorImpl<Value> &gradients) {
  if (cotangents[1] || cotangents[2])
    return failure(); // mean and rstd serve the gradient only
  gradients.assign(3, Value());
  Value g = cotangents[0];
  if (!g)
    return success();
  Build b(builder, getLoc());
  gradients[0] = LayerNormGradOp::create(builder, getLoc(), getX().getType(), g, getX(),
                                         getScale(), getMean(), getRstd());
  gradients[1] = LayerNormGradScaleOp::create(builder, getLoc(), getScale().getType(), g, getX(),
                                              getMean(), getRstd());
  gradients[2] = b.sumTo(b.cast(g, elementOf(getBias())), shapeOf(getBias()));
  return success();
}
EmitClass LayerNormOp::getEmitClass() { return EmitClass::RowReduction; }
PrecisionRule LayerNormOp::getPrecisionRule() {
  return {{Precision::Low, Precision::Given, Precision::Given},
          {Precision::Low, Precision::Full, Precision::Full}};
}

//===-- layer_norm_grad -----------------------------------------------------===//

static LogicalResult verifyStatistics(Operation *op, StringRef rule, Value x, Value mean,
                                      Value rstd) {
  if (failed(verifyShape(op, rule, "mean", mean, shapeOf(x).drop_back())))
    return failure();
  return verifyShape(op, rule, "rstd", rstd, shapeOf(x).drop_back());
}

LogicalResult LayerNormGradOp::verify() {
  if (failed(verifyRank(*this, getX())) ||
      failed(verifyShape(*this, "C1", "scale", getScale(), shapeOf(getX()).take_back())) ||
      failed(verifyType(*this, "C2", "cotangent", getCotangent(), getX())) ||
      failed(verifyType(*this, "C2", "result", getResult(), getX())))
    return failure();
  return verifyStatistics(*this, "C3", getX(), getMean(), getRstd());
}
ShardingRule LayerNormGradOp::getShardingRule() {
  ShardingRule rule;
  rule.linearIn = {{0}};
  auto [rows, last] = xFactors(rule, getX(), FactorKind::Parallel, FactorKind::Replicated);
  rule.operands = {joined(rows, last), joined(rows, last), {last}, rows, rows};
  rule.results = {joined(rows, last)};
  return rule;
}
template <typename T>
static void meaning(LayerNormGradOp op, Inputs<T> inputs, Outputs<T> outputs) {
  int64_t width = inputs[1]->shape.back();
  const TensorOf<T> &scale = *inputs[2];
  for (int64_t row = 0; row < inputs[3]->size(); ++row) {
    const T *dy = inputs[0]->data.data() + row * width,
                 *x = inputs[1]->data.data() + row * width;
    T mean = inputs[3]->data[row], rstd = inputs[4]->data[row], sum = 0, dot = 0;
    for (int64_t i = 0; i < width; ++i) {
      T g = dy[i] * scale.data[i];
      accumulate(sum, g, width);
      accumulate(dot, g * (x[i] - mean) * rstd, width);
    }
    for (int64_t i = 0; i < width; ++i)
      outputs[0].data[row * width + i] =
          rstd * (dy[i] * scale.data[i] - sum / width - (x[i] - mean) * rstd * dot / width);
  }
}
LLMC_EVALUATE(LayerNormGradOp)
LogicalResult LayerNormGradOp::differentiate(OpBuilder &, ArrayRef<Value>,
                                             SmallVectorImpl<Value> &) {
  return failure();
}
EmitClass LayerNormGradOp::getEmitClass() { return EmitClass::RowReduction; }

//===-- layer_norm_grad_scale -----------------------------------------------===//

LogicalResult LayerNormGradScaleOp::verify() {
  if (failed(verifyRank(*this, getX())) ||
      failed(verifyShape(*this, "C1", "result", getResult(), shapeOf(getX()).take_back())) ||
      failed(verifyType(*this, "C2", "cotangent", getCotangent(), getX())))
    return failure();
  return verifyStatistics(*this, "C3", getX(), getMean(), getRstd());
}
ShardingRule LayerNormGradScaleOp::getShardingRule() {
  ShardingRule rule;
  rule.linearIn = {{0}};
  auto [rows, last] = xFactors(rule, getX(), FactorKind::ReducedSum, FactorKind::Parallel);
  rule.operands = {joined(rows, last), joined(rows, last), rows, rows};
  rule.results = {{last}};
  return rule;
}
template <typename T>
static void meaning(LayerNormGradScaleOp op, Inputs<T> inputs, Outputs<T> outputs) {
  int64_t width = inputs[1]->shape.back(), rows = inputs[2]->size();
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t i = 0; i < width; ++i)
      accumulate(outputs[0].data[i],
                 inputs[0]->data[row * width + i] *
                     (inputs[1]->data[row * width + i] - inputs[2]->data[row]) *
                     inputs[3]->data[row],
                 rows);
}
LLMC_EVALUATE(LayerNormGradScaleOp)
LogicalResult LayerNormGradScaleOp::differentiate(OpBuilder &, ArrayRef<Value>,
                                                  SmallVectorImpl<Value> &) {
  return failure();
}
EmitClass LayerNormGradScaleOp::getEmitClass() { return EmitClass::Special; }

//===-- rms_norm ------------------------------------------------------------===//

LogicalResult RmsNormOp::verify() {
  if (failed(verifyRank(*this, getX())))
    return failure();
  ArrayRef<int64_t> shape = shapeOf(getX());
  if (failed(verifyShape(*this, "C1", "scale", getScale(), shape.take_back())))
    return failure();
  if (!(getEps().convertToDouble() >= 0))
    return emitOpError("C2: eps is ") << getEps().convertToDouble() << ", expected 0 or more";
  if (failed(verifyType(*this, "C3", "y", getY(), getX())))
    return failure();
  return verifyShape(*this, "C3", "rstd", getRstd(), shape.drop_back());
}
ShardingRule RmsNormOp::getShardingRule() {
  ShardingRule rule;
  auto [rows, last] = xFactors(rule, getX(), FactorKind::Parallel, FactorKind::Replicated);
  rule.operands = {joined(rows, last), {last}};
  rule.results = {joined(rows, last), rows};
  return rule;
}
template <typename T>
static void meaning(RmsNormOp op, Inputs<T> inputs, Outputs<T> outputs) {
  int64_t width = inputs[0]->shape.back();
  double eps = op.getEps().convertToDouble();
  for (int64_t row = 0; row < outputs[1].size(); ++row) {
    const T *x = inputs[0]->data.data() + row * width;
    T squares = 0;
    for (int64_t i = 0; i < width; ++i)
      accumulate(squares, x[i] * x[i], width);
    T rstd = outputs[1].data[row] = 1 / sqrt(squares / width + eps);
    for (int64_t i = 0; i < width; ++i)
      outputs[0].data[row * width + i] = x[i] * rstd * inputs[1]->data[i];
  }
}
LLMC_EVALUATE(RmsNormOp)
LogicalResult RmsNormOp::differentiate(OpBuilder &builder, ArrayRef<Value> cotangents,
                                       SmallVectorImpl<Value> &gradients) {
  if (cotangents[1])
    return failure(); // rstd serves the gradient only
  gradients.assign(2, Value());
  Value g = cotangents[0];
  if (!g)
    return success();
  gradients[0] = RmsNormGradOp::create(builder, getLoc(), getX().getType(), g, getX(), getScale(),
                                       getRstd());
  gradients[1] = RmsNormGradScaleOp::create(builder, getLoc(), getScale().getType(), g, getX(),
                                            getRstd());
  return success();
}
EmitClass RmsNormOp::getEmitClass() { return EmitClass::RowReduction; }
PrecisionRule RmsNormOp::getPrecisionRule() {
  return {{Precision::Low, Precision::Given}, {Precision::Low, Precision::Full}};
}

LogicalResult RmsNormGradOp::verify() {
  if (failed(verifyRank(*this, getX())) ||
      failed(verifyShape(*this, "C1", "scale", getScale(), shapeOf(getX()).take_back())) ||
      failed(verifyType(*this, "C2", "cotangent", getCotangent(), getX())) ||
      failed(verifyType(*this, "C2", "result", getResult(), getX())))
    return failure();
  return verifyShape(*this, "C3", "rstd", getRstd(), shapeOf(getX()).drop_back());
}
ShardingRule RmsNormGradOp::getShardingRule() {
  ShardingRule rule;
  rule.linearIn = {{0}};
  auto [rows, last] = xFactors(rule, getX(), FactorKind::Parallel, FactorKind::Replicated);
  rule.operands = {joined(rows, last), joined(rows, last), {last}, rows};
  rule.results = {joined(rows, last)};
  return rule;
}
template <typename T>
static void meaning(RmsNormGradOp op, Inputs<T> inputs, Outputs<T> outputs) {
  int64_t width = inputs[1]->shape.back();
  const TensorOf<T> &scale = *inputs[2];
  for (int64_t row = 0; row < inputs[3]->size(); ++row) {
    const T *dy = inputs[0]->data.data() + row * width,
                 *x = inputs[1]->data.data() + row * width;
    T rstd = inputs[3]->data[row], dot = 0;
    for (int64_t i = 0; i < width; ++i)
      accumulate(dot, dy[i] * scale.data[i] * x[i] * rstd, width);
    for (int64_t i = 0; i < width; ++i)
      outputs[0].data[row * width + i] =
          rstd * (dy[i] * scale.data[i] - x[i] * rstd * dot / width);
  }
}
LLMC_EVALUATE(RmsNormGradOp)
LogicalResult RmsNormGradOp::differentiate(OpBuilder &, ArrayRef<Value>,
                                           SmallVectorImpl<Value> &) {
  return failure();
}
EmitClass RmsNormGradOp::getEmitClass() { return EmitClass::RowReduction; }

LogicalResult RmsNormGradScaleOp::verify() {
  if (failed(verifyRank(*this, getX())) ||
      failed(verifyShape(*this, "C1", "result", getResult(), shapeOf(getX()).take_back())) ||
      failed(verifyType(*this, "C2", "cotangent", getCotangent(), getX())))
    return failure();
  return verifyShape(*this, "C3", "rstd", getRstd(), shapeOf(getX()).drop_back());
}
ShardingRule RmsNormGradScaleOp::getShardingRule() {
  ShardingRule rule;
  rule.linearIn = {{0}};
  auto [rows, last] = xFactors(rule, getX(), FactorKind::ReducedSum, FactorKind::Parallel);
  rule.operands = {joined(rows, last), joined(rows, last), rows};
  rule.results = {{last}};
  return rule;
}
template <typename T>
static void meaning(RmsNormGradScaleOp op, Inputs<T> inputs, Outputs<T> outputs) {
  int64_t width = inputs[1]->shape.back(), rows = inputs[2]->size();
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t i = 0; i < width; ++i)
      accumulate(outputs[0].data[i],
                 inputs[0]->data[row * width + i] * inputs[1]->data[row * width + i] *
                     inputs[2]->data[row],
                 rows);
}
LLMC_EVALUATE(RmsNormGradScaleOp)
LogicalResult RmsNormGradScaleOp::differentiate(OpBuilder &, ArrayRef<Value>,
                                                SmallVectorImpl<Value> &) {
  return failure();
}
EmitClass RmsNormGradScaleOp::getEmitClass() { return EmitClass::Special; }
