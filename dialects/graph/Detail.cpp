#include "dialects/graph/Detail.h"

using namespace mlir;

namespace llmc::graph {

Strides broadcastStrides(ArrayRef<int64_t> own, ArrayRef<int64_t> shape) {
  Strides strides(shape.size(), 0);
  int64_t step = 1;
  for (size_t i = own.size(), shift = shape.size() - own.size(); i-- > 0; step *= own[i])
    if (own[i] != 1)
      strides[shift + i] = step;
  return strides;
}

ShardingRule elementwiseRule(Operation *op, LinearIn linearIn) {
  ShardingRule rule;
  rule.linearIn = std::move(linearIn);
  ArrayRef<int64_t> shape = shapeOf(op->getResult(0));
  TensorFactors factors(shape.size());
  for (auto [i, size] : llvm::enumerate(shape))
    if (size != 1)
      factors[i].push_back(rule.addFactor(size));
  auto factorsOf = [&](Value value) {
    ArrayRef<int64_t> own = shapeOf(value);
    TensorFactors result(own.size());
    for (size_t i = 0; i < own.size(); ++i)
      if (own[i] != 1)
        result[i] = factors[shape.size() - own.size() + i];
    return result;
  };
  rule.operands.reserve(op->getNumOperands());
  for (Value operand : op->getOperands())
    rule.operands.push_back(factorsOf(operand));
  for (Value result : op->getResults())
    rule.results.push_back(factorsOf(result));
  return rule;
}

TensorFactors addFactors(ShardingRule &rule, ArrayRef<int64_t> shape, FactorKind kind) {
  TensorFactors factors;
  for (int64_t size : shape)
    factors.push_back({rule.addFactor(size, kind)});
  return factors;
}

LogicalResult setOperandCotangents(Operation *op, OpBuilder &builder, ArrayRef<Value> cotangents,
                       SmallVectorImpl<Value> &gradients,
                       function_ref<Value(Build &, Value, unsigned)> make) {
  gradients.assign(op->getNumOperands(), Value());
  if (!cotangents[0])
    return success();
  Build b(builder, op->getLoc());
  for (unsigned i = 0; i < op->getNumOperands(); ++i) {
    if (!isFloat(op->getOperand(i)))
      continue;
    if (Value gradient = make(b, cotangents[0], i))
      gradients[i] = b.sumTo(gradient, shapeOf(op->getOperand(i)));
  }
  return success();
}

double elementwiseFlops(Operation *op) {
  auto graphOp = cast<GraphOpInterface>(op);
  double elements = 0;
  switch (graphOp.getEmitClass()) {
  case EmitClass::Alias:
  case EmitClass::Movement:
    return 0;
  case EmitClass::Elementwise:
    for (Value result : op->getResults())
      elements += static_cast<double>(typeOf(result).getNumElements());
    return elements;
  default: // one visit of every element that is read
    for (Value operand : op->getOperands())
      elements = std::max(elements, static_cast<double>(typeOf(operand).getNumElements()));
    return elements;
  }
}

} // namespace llmc::graph
