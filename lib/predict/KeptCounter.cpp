#include "lib/predict/KeptCounter.h"

#include "lib/predict/Values.h"

using namespace mlir;
using namespace llmc;
using namespace llmc::predict;

static bool isNonlinear(Operation *op) {
  if (!isElementwise(op) || isa<graph::AddOp, graph::SubOp, graph::NegOp, graph::CastOp>(op))
    return false;
  auto result = cast<RankedTensorType>(op->getResult(0).getType());
  return isa<FloatType>(result.getElementType());
}

void KeptCounter::count(Operation *op) {
  if (isa<graph::MatmulOp, graph::GroupedMatmulOp>(op)) {
    keep(op->getOperand(0));
    if (Value other = rootOf(op->getOperand(1)); other.getDefiningOp())
      keep(other);
    return;
  }
  if (isa<graph::AttentionOp>(op)) {
    if (attentions_++ % rings_ != 0)
      return;
    for (unsigned i = 0; i < 3; ++i)
      keep(op->getOperand(i));
    for (Value result : op->getResults())
      keep(result);
    return;
  }
  if (isa<graph::LayerNormOp, graph::RmsNormOp>(op)) {
    keep(op->getOperand(0));
    for (Value statistic : op->getResults().drop_front())
      keep(statistic);
    return;
  }
  if (isa<graph::SoftmaxOp>(op))
    return keep(op->getResult(0));
  if (isNonlinear(op))
    for (Value operand : op->getOperands())
      keepElementwise(operand);
}

void KeptCounter::keep(Value value) {
  value = rootOf(value);
  if (!seen_.insert(value).second)
    return;
  inputs += bytesOf(value);
  Operation *op = value.getDefiningOp();
  if (!isElementwise(op) && !isa_and_nonnull<graph::LayerNormOp, graph::RmsNormOp>(op))
    products += bytesOf(value);
}

void KeptCounter::keepElementwise(Value value) {
  value = rootOf(value);
  Operation *op = value.getDefiningOp();
  if (!op && !isa<BlockArgument>(value))
    return;
  if (isa_and_nonnull<graph::ConstantOp, graph::BroadcastOp>(op) || (!op && elementsOf(value.getType()) < 2))
    return;
  if (!isElementwise(op))
    return keep(value);
  if (!seen_.contains(value) && unfusedSeen_.insert(value).second)
    unfused += bytesOf(value);
}
