// Implements reductions and softmax.
#include "dialects/graph/Detail.h"

#include <cmath>
#include <limits>

using namespace mlir;
using namespace llmc::graph;

//===-- reduce --------------------------------------------------------------===//

LogicalResult ReduceOp::verify() {
  ArrayRef<int64_t> shape = shapeOf(getOperand());
  SmallVector<bool> reduced(shape.size(), false);
  for (int64_t dim : getDims()) {
    if (dim < 0 || dim >= static_cast<int64_t>(shape.size()) || reduced[dim])
      return emitOpError("C1: dims are ") << shapeText(getDims())
                                          << ", expected distinct dimensions of a tensor of rank "
                                          << shape.size();
    reduced[dim] = true;
  }
  SmallVector<int64_t> expected;
  for (size_t i = 0; i < shape.size(); ++i)
    if (!reduced[i])
      expected.push_back(shape[i]);
  if (shapeOf(getResult()) != ArrayRef<int64_t>(expected))
    return emitOpError("C2: result shape is ") << shapeText(shapeOf(getResult())) << ", expected "
                                               << shapeText(expected);
  if (elementOf(getOperand()) != elementOf(getResult()) &&
      !(isFloat(getOperand()) && isFloat(getResult())))
    return emitOpError("C3: result has element type ")
           << elementOf(getResult()) << ", expected " << elementOf(getOperand())
           << " (or another float for a float)";
  return success();
}
ShardingRule ReduceOp::getShardingRule() {
  ShardingRule rule;
  if (getKind() == ReduceKind::sum)
    rule.linearIn = {{0}};
  FactorKind kind =
      getKind() == ReduceKind::max ? FactorKind::ReducedMax : FactorKind::ReducedSum;
  TensorFactors operand, result;
  for (auto [i, size] : llvm::enumerate(shapeOf(getOperand()))) {
    bool reduced = llvm::is_contained(getDims(), static_cast<int64_t>(i));
    operand.push_back({rule.addFactor(size, reduced ? kind : FactorKind::Parallel)});
    if (!reduced)
      result.push_back(operand.back());
  }
  rule.operands = {operand};
  rule.results = {result};
  return rule;
}
template <typename T>
static void meaning(ReduceOp op, Inputs<T> inputs, Outputs<T> outputs) {
  std::vector<T> &out = outputs[0].data;
  ReduceKind kind = op.getKind();
  if (kind == ReduceKind::max)
    std::fill(out.begin(), out.end(),
              T(isFloat(op.getResult()) ? -std::numeric_limits<double>::infinity() : -0x1p63));
  Strides own = outputs[0].strides(), strides(inputs[0]->shape.size(), 0);
  for (size_t i = 0, next = 0; i < strides.size(); ++i)
    if (!llvm::is_contained(op.getDims(), static_cast<int64_t>(i)))
      strides[i] = own[next++];
  const T *in = inputs[0]->data.data();
  int64_t terms = inputs[0]->size() / std::max<int64_t>(outputs[0].size(), 1);
  forEach(inputs[0]->shape, {strides}, [&](const int64_t *to) {
    T x = *in++, &y = out[to[0]];
    if (kind == ReduceKind::max)
      y = maximum(y, x);
    else
      accumulate(y, kind == ReduceKind::sum ? x : x * x, terms);
  });
}
LLMC_EVALUATE(ReduceOp)
LogicalResult ReduceOp::differentiate(OpBuilder &builder, ArrayRef<Value> cotangents,
                                      SmallVectorImpl<Value> &gradients) {
  auto gradient = [&](Build &b, Value g, unsigned) {
    g = b.cast(g, elementOf(getOperand()));
    if (getKind() == ReduceKind::sum)
      return b.unreduce(g, getDims(), shapeOf(getOperand()));
    SmallVector<int64_t> kept(shapeOf(getOperand()));
    for (int64_t dim : getDims())
      kept[dim] = 1;
    if (getKind() == ReduceKind::sum_squares)
      return b.mul(b.reshape(b.scale(g, 2), kept), getOperand());
    // Share the cotangent evenly among equal maxima. Compare in the type of the result, in which
    // the maximum may have been rounded.
    Value numbers = b.cast(getOperand(), elementOf(getResult()));
    Value isLargest = b.compare(numbers, b.reshape(getResult(), kept), Predicate::eq);
    Value count = b.reduce(b.cast(isLargest, elementOf(g)), ReduceKind::sum, getDims());
    Value share = b.reshape(b.div(g, count), kept);
    return b.select(isLargest, share, b.constant(0, elementOf(g)));
  };
  return setOperandCotangents(*this, builder, cotangents, gradients, gradient);
}
EmitClass ReduceOp::getEmitClass() {
  int64_t rank = getOperand().getType().getRank(), first = rank - getDims().size();
  bool innermost = llvm::all_of(getDims(), [&](int64_t dim) { return dim >= first; });
  return innermost ? EmitClass::RowReduction : EmitClass::Special;
}

// Keeps sums in f32, since many terms are added; a maximum is one of its terms.
PrecisionRule ReduceOp::getPrecisionRule() {
  if (getKind() == ReduceKind::max)
    return {};
  return {{Precision::Given}, {Precision::Full}};
}

//===-- softmax -------------------------------------------------------------===//

static LogicalResult verifyRows(Operation *op) {
  ArrayRef<int64_t> shape = shapeOf(op->getResult(0));
  if (shape.empty())
    return op->emitOpError("C1: operand is a scalar, expected a last dimension");
  for (auto [i, operand] : llvm::enumerate(op->getOperands()))
    if (shapeOf(operand) != shape)
      return op->emitOpError("C2: operand ") << i << " has shape " << shapeText(shapeOf(operand))
                                             << ", expected the result's, " << shapeText(shape);
  return success();
}
// Returns the rule of ops whose tensors all have one shape: rows may be cut, the last dimension
// not.
static ShardingRule rowsRule(Operation *op) {
  ShardingRule rule;
  ArrayRef<int64_t> shape = shapeOf(op->getResult(0));
  TensorFactors factors = addFactors(rule, shape.drop_back());
  factors.push_back({rule.addFactor(shape.back(), FactorKind::Replicated)});
  rule.operands.assign(op->getNumOperands(), factors);
  rule.results = {factors};
  return rule;
}

LogicalResult SoftmaxOp::verify() { return verifyRows(*this); }
ShardingRule SoftmaxOp::getShardingRule() { return rowsRule(*this); }
template <typename T>
static void meaning(SoftmaxOp op, Inputs<T> inputs, Outputs<T> outputs) {
  int64_t width = inputs[0]->shape.back();
  for (int64_t row = 0; row < inputs[0]->size(); row += width) {
    const T *x = &inputs[0]->data[row];
    T *y = &outputs[0].data[row], sum = 0, largest = x[0];
    for (int64_t i = 1; i < width; ++i)
      largest = maximum(largest, x[i]);
    if (valueOf(largest) == -std::numeric_limits<double>::infinity())
      continue; // everything is masked: zeros
    for (int64_t i = 0; i < width; ++i)
      accumulate(sum, y[i] = exp(x[i] - largest), width);
    for (int64_t i = 0; i < width; ++i)
      y[i] /= sum;
  }
}
LLMC_EVALUATE(SoftmaxOp)
LogicalResult SoftmaxOp::differentiate(OpBuilder &builder, ArrayRef<Value> cotangents,
                                       SmallVectorImpl<Value> &gradients) {
  return setOperandCotangents(
      *this, builder, cotangents, gradients, [&](Build &b, Value g, unsigned) {
        return SoftmaxGradOp::create(b.builder, b.loc, getOperand().getType(), getResult(), g);
      });
}
EmitClass SoftmaxOp::getEmitClass() { return EmitClass::RowReduction; }
// Takes scores to which an f32 mask was added as they are: its -3e38 has no number in a low type.
PrecisionRule SoftmaxOp::getPrecisionRule() { return {{Precision::Given}, {Precision::Low}}; }

LogicalResult SoftmaxGradOp::verify() { return verifyRows(*this); }
ShardingRule SoftmaxGradOp::getShardingRule() { return rowsRule(*this); }
template <typename T>
static void meaning(SoftmaxGradOp op, Inputs<T> inputs, Outputs<T> outputs) {
  int64_t width = inputs[0]->shape.back();
  for (int64_t row = 0; row < inputs[0]->size(); row += width) {
    const T *y = &inputs[0]->data[row], *dy = &inputs[1]->data[row];
    T dot = 0;
    for (int64_t i = 0; i < width; ++i)
      accumulate(dot, dy[i] * y[i], width);
    for (int64_t i = 0; i < width; ++i)
      outputs[0].data[row + i] = y[i] * (dy[i] - dot);
  }
}
LLMC_EVALUATE(SoftmaxGradOp)
LogicalResult SoftmaxGradOp::differentiate(OpBuilder &, ArrayRef<Value>,
                                           SmallVectorImpl<Value> &) {
  return failure();
}
EmitClass SoftmaxGradOp::getEmitClass() { return EmitClass::RowReduction; }
