// Implements the ops that index a dimension, of which a rank may hold only a part (offset).
#include "dialects/graph/Detail.h"

using namespace mlir;
using namespace llmc::graph;

using Shape = SmallVector<int64_t>;

static Shape joined(ArrayRef<int64_t> a, ArrayRef<int64_t> b) {
  Shape shape(a);
  shape.append(b.begin(), b.end());
  return shape;
}
static LogicalResult verifyRank(Operation *op, StringRef rule, StringRef name, Value value) {
  if (shapeOf(value).empty())
    return op->emitOpError() << rule << ": " << name << " is a scalar, expected a dimension to "
                             << "look into";
  return success();
}
static TensorFactors joined(const TensorFactors &a, const TensorFactors &b) {
  TensorFactors factors(a);
  factors.append(b.begin(), b.end());
  return factors;
}

//===-- gather, scatter_add -------------------------------------------------===//

LogicalResult GatherOp::verify() {
  if (failed(verifyRank(*this, "C1", "table", getTable())))
    return failure();
  Shape expected = joined(shapeOf(getIds()), shapeOf(getTable()).drop_front());
  if (failed(verifyShape(*this, "C2", "result", getResult(), expected)))
    return failure();
  return verifyElement(*this, "C3", getTable());
}
ShardingRule GatherOp::getShardingRule() {
  ShardingRule rule;
  rule.linearIn = {{0}};
  TensorFactors ids = addFactors(rule, shapeOf(getIds()));
  unsigned rows = rule.addFactor(shapeOf(getTable())[0], FactorKind::ReducedSum);
  TensorFactors inner = addFactors(rule, shapeOf(getTable()).drop_front());
  rule.operands = {joined({{rows}}, inner), ids};
  if (getOffset())
    rule.operands.emplace_back();
  rule.results = {joined(ids, inner)};
  rule.offsetFactor = rows;
  return rule;
}
// Calls body(i, row) for the i-th id that lies in the part of `rows` rows.
template <typename T, typename Body>
static void forEachRow(const TensorOf<T> &ids, int64_t offset, int64_t rows, Body body) {
  for (int64_t i = 0; i < ids.size(); ++i) {
    int64_t row = toInt64(valueOf(ids.data[i]) - static_cast<double>(offset));
    if (row >= 0 && row < rows)
      body(i, row);
  }
}
template <typename T>
static void meaning(GatherOp op, Inputs<T> inputs, Outputs<T> outputs) {
  const TensorOf<T> &table = *inputs[0];
  int64_t width = table.strides()[0];
  forEachRow(*inputs[1], offsetOf(inputs, 2), table.shape[0], [&](int64_t i, int64_t row) {
    std::copy_n(table.data.data() + row * width, width, outputs[0].data.data() + i * width);
  });
}
LLMC_EVALUATE(GatherOp)
LogicalResult GatherOp::differentiate(OpBuilder &builder, ArrayRef<Value> cotangents,
                                      SmallVectorImpl<Value> &gradients) {
  gradients.assign((*this)->getNumOperands(), Value());
  if (cotangents[0])
    gradients[0] = ScatterAddOp::create(builder, getLoc(), getTable().getType(), getIds(),
                                        cotangents[0], getOffset());
  return success();
}
EmitClass GatherOp::getEmitClass() { return EmitClass::Movement; }

LogicalResult ScatterAddOp::verify() {
  if (failed(verifyRank(*this, "C1", "result", getResult())))
    return failure();
  Shape expected = joined(shapeOf(getIds()), shapeOf(getResult()).drop_front());
  if (failed(verifyShape(*this, "C2", "updates", getUpdates(), expected)))
    return failure();
  if (isFloat(getUpdates()) && isFloat(getResult()))
    return success();
  return verifyElement(*this, "C3", getUpdates());
}
ShardingRule ScatterAddOp::getShardingRule() {
  ShardingRule rule;
  rule.linearIn = {{1}};
  TensorFactors ids = addFactors(rule, shapeOf(getIds()), FactorKind::ReducedSum);
  unsigned rows = rule.addFactor(shapeOf(getResult())[0]);
  TensorFactors inner = addFactors(rule, shapeOf(getResult()).drop_front());
  rule.operands = {ids, joined(ids, inner)};
  if (getOffset())
    rule.operands.emplace_back();
  rule.results = {joined({{rows}}, inner)};
  rule.offsetFactor = rows;
  return rule;
}
template <typename T>
static void meaning(ScatterAddOp op, Inputs<T> inputs, Outputs<T> outputs) {
  TensorOf<T> &result = outputs[0];
  int64_t width = result.strides()[0], offset = offsetOf(inputs, 2);
  std::vector<int64_t> terms(result.shape[0], 0); // of each row
  forEachRow(*inputs[0], offset, result.shape[0], [&](int64_t, int64_t row) { ++terms[row]; });
  forEachRow(*inputs[0], offset, result.shape[0], [&](int64_t i, int64_t row) {
    for (int64_t k = 0; k < width; ++k)
      accumulate(result.data[row * width + k], inputs[1]->data[i * width + k], terms[row]);
  });
}
LLMC_EVALUATE(ScatterAddOp)
LogicalResult ScatterAddOp::differentiate(OpBuilder &builder, ArrayRef<Value> cotangents,
                                          SmallVectorImpl<Value> &gradients) {
  gradients.assign((*this)->getNumOperands(), Value());
  if (!cotangents[0] || !isFloat(getUpdates()))
    return success();
  Build b(builder, getLoc());
  Type type = getUpdates().getType().clone(elementOf(cotangents[0]));
  Value rows = GatherOp::create(builder, getLoc(), type, cotangents[0], getIds(), getOffset());
  gradients[1] = b.cast(rows, elementOf(getUpdates()));
  return success();
}
EmitClass ScatterAddOp::getEmitClass() { return EmitClass::Special; }

//===-- take_along, one_hot -------------------------------------------------===//

LogicalResult TakeAlongOp::verify() {
  if (failed(verifyRank(*this, "C1", "operand", getOperand())))
    return failure();
  ArrayRef<int64_t> expected = shapeOf(getOperand()).drop_back();
  if (failed(verifyShape(*this, "C2", "ids", getIds(), expected)) ||
      failed(verifyShape(*this, "C3", "result", getResult(), expected)))
    return failure();
  return verifyElement(*this, "C4", getOperand());
}
ShardingRule TakeAlongOp::getShardingRule() {
  ShardingRule rule;
  rule.linearIn = {{0}};
  TensorFactors rows = addFactors(rule, shapeOf(getIds()));
  unsigned last = rule.addFactor(shapeOf(getOperand()).back(), FactorKind::ReducedSum);
  rule.operands = {joined(rows, {{last}}), rows};
  if (getOffset())
    rule.operands.emplace_back();
  rule.results = {rows};
  rule.offsetFactor = last;
  return rule;
}
template <typename T>
static void meaning(TakeAlongOp op, Inputs<T> inputs, Outputs<T> outputs) {
  int64_t width = inputs[0]->shape.back();
  forEachRow(*inputs[1], offsetOf(inputs, 2), width, [&](int64_t i, int64_t column) {
    outputs[0].data[i] = inputs[0]->data[i * width + column];
  });
}
LLMC_EVALUATE(TakeAlongOp)
LogicalResult TakeAlongOp::differentiate(OpBuilder &builder, ArrayRef<Value> cotangents,
                                         SmallVectorImpl<Value> &gradients) {
  gradients.assign((*this)->getNumOperands(), Value());
  if (cotangents[0] && isFloat(getOperand()))
    gradients[0] = OneHotOp::create(builder, getLoc(), getOperand().getType(), getIds(),
                                    cotangents[0], getOffset());
  return success();
}
EmitClass TakeAlongOp::getEmitClass() { return EmitClass::Movement; }

LogicalResult OneHotOp::verify() {
  if (failed(verifyRank(*this, "C1", "result", getResult())))
    return failure();
  ArrayRef<int64_t> expected = shapeOf(getResult()).drop_back();
  if (failed(verifyShape(*this, "C2", "ids", getIds(), expected)) ||
      failed(verifyShape(*this, "C3", "values", getValues(), expected)))
    return failure();
  return verifyElement(*this, "C4", getValues());
}
ShardingRule OneHotOp::getShardingRule() {
  ShardingRule rule;
  rule.linearIn = {{1}};
  TensorFactors rows = addFactors(rule, shapeOf(getIds()));
  unsigned last = rule.addFactor(shapeOf(getResult()).back());
  rule.operands = {rows, rows};
  if (getOffset())
    rule.operands.emplace_back();
  rule.results = {joined(rows, {{last}})};
  rule.offsetFactor = last;
  return rule;
}
template <typename T>
static void meaning(OneHotOp op, Inputs<T> inputs, Outputs<T> outputs) {
  int64_t width = outputs[0].shape.back();
  forEachRow(*inputs[0], offsetOf(inputs, 2), width, [&](int64_t i, int64_t column) {
    outputs[0].data[i * width + column] = inputs[1]->data[i];
  });
}
LLMC_EVALUATE(OneHotOp)
LogicalResult OneHotOp::differentiate(OpBuilder &builder, ArrayRef<Value> cotangents,
                                      SmallVectorImpl<Value> &gradients) {
  gradients.assign((*this)->getNumOperands(), Value());
  if (cotangents[0] && isFloat(getValues()))
    gradients[1] = TakeAlongOp::create(builder, getLoc(), getValues().getType(), cotangents[0],
                                       getIds(), getOffset());
  return success();
}
EmitClass OneHotOp::getEmitClass() { return EmitClass::Movement; }

//===-- mask_tail -----------------------------------------------------------===//

LogicalResult MaskTailOp::verify() {
  int64_t rank = getOperand().getType().getRank(), dim = getDim(), valid = getValid();
  if (dim < 0 || dim >= rank)
    return emitOpError("C1: dim is ") << dim << ", expected less than the rank " << rank;
  if (valid < 0)
    return emitOpError("C2: valid is ") << valid << ", expected 0 or more";
  if (getOperand().getType() != getResult().getType())
    return emitOpError("C3: result type is ") << getResult().getType() << ", expected "
                                              << getOperand().getType() << ", the operand's";
  return success();
}
ShardingRule MaskTailOp::getShardingRule() {
  ShardingRule rule;
  if (getValue().isZero())
    rule.linearIn = {{0}};
  TensorFactors factors = addFactors(rule, shapeOf(getOperand()));
  rule.operands = {factors};
  if (getOffset())
    rule.operands.emplace_back();
  rule.results = {factors};
  rule.offsetFactor = factors[getDim()][0];
  return rule;
}
template <typename T>
static void meaning(MaskTailOp op, Inputs<T> inputs, Outputs<T> outputs) {
  Strides along(outputs[0].shape.size(), 0);
  along[op.getDim()] = 1;
  const T *in = inputs[0]->data.data();
  T *out = outputs[0].data.data(), value = op.getValue().convertToDouble();
  int64_t offset = offsetOf(inputs, 1), valid = op.getValid();
  forEach(outputs[0].shape, {along}, [&](const int64_t *index) {
    *out++ = index[0] + offset < valid ? *in : value;
    ++in;
  });
}
LLMC_EVALUATE(MaskTailOp)
LogicalResult MaskTailOp::differentiate(OpBuilder &builder, ArrayRef<Value> cotangents,
                                        SmallVectorImpl<Value> &gradients) {
  gradients.assign((*this)->getNumOperands(), Value());
  if (cotangents[0] && isFloat(getOperand()))
    gradients[0] = MaskTailOp::create(builder, getLoc(), getOperand().getType(), cotangents[0],
                                      getOffset(), getDim(), getValid(), APFloat(0.0));
  return success();
}
EmitClass MaskTailOp::getEmitClass() { return EmitClass::Elementwise; }

//===-- cumsum --------------------------------------------------------------===//

LogicalResult CumsumOp::verify() {
  int64_t rank = getOperand().getType().getRank(), dim = getDim();
  if (dim < 0 || dim >= rank)
    return emitOpError("C1: dim is ") << dim << ", expected less than the rank " << rank;
  if (getOperand().getType() != getResult().getType())
    return emitOpError("C2: result type is ") << getResult().getType() << ", expected "
                                              << getOperand().getType() << ", the operand's";
  return success();
}
ShardingRule CumsumOp::getShardingRule() {
  ShardingRule rule;
  rule.linearIn = {{0}};
  TensorFactors factors;
  for (auto [i, size] : llvm::enumerate(shapeOf(getOperand())))
    factors.push_back({rule.addFactor(size, i == getDim() ? FactorKind::Replicated
                                                          : FactorKind::Parallel)});
  rule.operands = {factors};
  rule.results = {factors};
  return rule;
}
template <typename T>
static void meaning(CumsumOp op, Inputs<T> inputs, Outputs<T> outputs) {
  const TensorOf<T> &in = *inputs[0];
  Strides strides = in.strides();
  Shape others(in.shape.begin(), in.shape.end());
  int64_t size = others[op.getDim()], step = strides[op.getDim()];
  others[op.getDim()] = size == 0 ? 0 : 1;
  forEach(others, {strides}, [&](const int64_t *start) {
    T sum = 0;
    for (int64_t k = 0; k < size; ++k) {
      int64_t at = start[0] + (op.getReverse() ? size - 1 - k : k) * step;
      T next = sum;
      accumulate(next, in.data[at], size);
      outputs[0].data[at] = op.getExclusive() ? sum : next;
      sum = next;
    }
  });
}
LLMC_EVALUATE(CumsumOp)
LogicalResult CumsumOp::differentiate(OpBuilder &builder, ArrayRef<Value> cotangents,
                                      SmallVectorImpl<Value> &gradients) {
  gradients.assign(1, Value());
  if (cotangents[0] && isFloat(getOperand()))
    gradients[0] = CumsumOp::create(builder, getLoc(), getOperand().getType(), cotangents[0],
                                    getDim(), getExclusive(), !getReverse());
  return success();
}
EmitClass CumsumOp::getEmitClass() { return EmitClass::Special; }
PrecisionRule CumsumOp::getPrecisionRule() { return {{Precision::Full}, {Precision::Full}}; }
