// Implements rotary position embedding.
#include "dialects/graph/Detail.h"

using namespace mlir;
using namespace llmc::graph;

LogicalResult RotaryOp::verify() {
  ArrayRef<int64_t> x = shapeOf(getX()), cos = shapeOf(getCos()), sin = shapeOf(getSin());
  if (x.size() != 4 || cos.size() != 3 || sin.size() != 3)
    return emitOpError("C1: x, cos and sin have ranks ")
           << x.size() << ", " << cos.size() << " and " << sin.size()
           << ", expected 4, 3 and 3: [batch, rows, heads, dim] and [batch or 1, rows, half]";
  if (cos != sin || (cos[0] != x[0] && cos[0] != 1) || cos[1] != x[1])
    return emitOpError("C2: cos and sin have shapes ")
           << shapeText(cos) << " and " << shapeText(sin) << ", expected one shape, of "
           << x[0] << " or 1 and " << x[1];
  if (cos[2] < 1 || 2 * cos[2] > x[3])
    return emitOpError("C3: cos has ") << cos[2] << " pairs, expected 1 to half of x's dim "
                                       << x[3];
  if (getX().getType() != getResult().getType())
    return emitOpError("C4: result type is ") << getResult().getType() << ", expected x's, "
                                              << getX().getType();
  return success();
}

ShardingRule RotaryOp::getShardingRule() {
  ShardingRule rule;
  rule.linearIn = {{0}};
  TensorFactors x = addFactors(rule, shapeOf(getX()).drop_back());
  x.push_back({rule.addFactor(shapeOf(getX()).back(), FactorKind::Replicated)});
  DimFactors half{rule.addFactor(shapeOf(getCos())[2], FactorKind::Replicated)};
  TensorFactors table{shapeOf(getCos())[0] == 1 ? DimFactors() : x[0], x[1], half};
  rule.operands = {x, table, table};
  rule.results = {x};
  return rule;
}

// Counts two products and a sum for each rotated element.
double RotaryOp::getFlops() {
  ArrayRef<int64_t> x = shapeOf(getX());
  return 3.0 * x[0] * x[1] * x[2] * 2 * shapeOf(getCos())[2];
}
EmitClass RotaryOp::getEmitClass() { return EmitClass::Special; }
// Keeps the tables: an angle's cosine has few digits in a low type, and no weight depends on it.
PrecisionRule RotaryOp::getPrecisionRule() {
  return {{Precision::Low, Precision::Given, Precision::Given}, {Precision::Low}};
}

template <typename T>
static void meaning(RotaryOp op, Inputs<T> inputs, Outputs<T> outputs) {
  const TensorOf<T> &x = *inputs[0], &cos = *inputs[1], &sin = *inputs[2];
  int64_t dim = x.shape[3], half = cos.shape[2], heads = x.shape[2], rows = x.shape[1];
  int64_t step = op.getInterleaved() ? 2 : 1, partner = op.getInterleaved() ? 1 : half;
  double sign = op.getInverse() ? -1 : 1;
  outputs[0].data = x.data;
  for (int64_t vector = 0; vector < x.shape[0] * rows * heads; ++vector) {
    int64_t row = cos.shape[0] == 1 ? vector / heads % rows : vector / heads;
    for (int64_t i = 0; i < half; ++i) {
      int64_t at = vector * dim + i * step;
      T a = x.data[at], b = x.data[at + partner], c = cos.data[row * half + i],
        s = sign * sin.data[row * half + i];
      outputs[0].data[at] = a * c - b * s;
      outputs[0].data[at + partner] = b * c + a * s;
    }
  }
}
LLMC_EVALUATE(RotaryOp)

LogicalResult RotaryOp::differentiate(OpBuilder &builder, ArrayRef<Value> cotangents,
                                      SmallVectorImpl<Value> &gradients) {
  gradients.assign(3, Value());
  if (cotangents[0])
    gradients[0] = RotaryOp::create(builder, getLoc(), getX().getType(), cotangents[0], getCos(),
                                    getSin(), getInterleaved(), !getInverse());
  return success();
}
