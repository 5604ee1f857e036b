#include "passes/3-shard/RepeatKvHeads/Repeater.h"

#include "dialects/parallel/Annotations.h"

#include "mlir/Dialect/Utils/IndexingUtils.h"

using namespace mlir;
using namespace llmc;
using namespace llmc::parallel;
using graph::Build;
using graph::elementOf;
using graph::shapeOf;

namespace {

// Returns the permutation that brings `dim` of `rank` dimensions to the front; its inverse puts the
// dimension back.
SmallVector<int64_t> toFront(int64_t rank, int64_t dim) {
  return computePermutationVector(rank, dim, int64_t(0));
}

RankedTensorType resized(Value value, int64_t dim, int64_t size) {
  SmallVector<int64_t> shape(shapeOf(value));
  shape[dim] = size;
  return RankedTensorType::get(shape, elementOf(value));
}

// Marks the ops that are built during its lifetime as backward if `like` is.
struct Marker : OpBuilder::Listener {
  Marker(OpBuilder &builder, Operation *like) : builder(builder), backward(like->hasAttr(kBackward)) {
    builder.setListener(this);
  }
  ~Marker() override { builder.setListener(nullptr); }
  void notifyOperationInserted(Operation *made, OpBuilder::InsertPoint) override {
    if (backward)
      made->setAttr(kBackward, builder.getUnitAttr());
  }
  OpBuilder &builder;
  bool backward;
};

} // namespace

Repeater::Repeater(Operation *op, int64_t kvHeads, int64_t heads)
    : op(op), builder(op), kvHeads(kvHeads), heads(heads) {
  Marker marker(builder, op);
  Build build(builder, op->getLoc());
  Type integer = builder.getI64Type();
  Value index = graph::IotaOp::create(builder, op->getLoc(),
                                      RankedTensorType::get({heads}, integer), Value(), 0);
  ids = build.div(index, build.constant(double(heads / kvHeads), integer));
}

void Repeater::repeatOperand(unsigned i, int64_t dim) {
  Marker marker(builder, op);
  Build build(builder, op->getLoc());
  Value value = op->getOperand(i);
  SmallVector<int64_t> front = toFront(shapeOf(value).size(), dim);
  Value table = build.transpose(value, front);
  auto rows = graph::GatherOp::create(builder, op->getLoc(), resized(table, 0, heads), table, ids,
                                      Value());
  rows->setAttr(kKeepIndexedDim, builder.getUnitAttr());
  op->setOperand(i, build.transpose(rows, invertPermutationVector(front)));
}

void Repeater::sumResult(unsigned i, int64_t dim) {
  Value result = op->getResult(i);
  result.setType(resized(result, dim, heads));
  builder.setInsertionPointAfter(op);
  Marker marker(builder, op);
  Build build(builder, op->getLoc());
  SmallVector<int64_t> front = toFront(shapeOf(result).size(), dim);
  Value updates = build.transpose(result, front);
  Value added = graph::ScatterAddOp::create(builder, op->getLoc(), resized(updates, 0, kvHeads),
                                            ids, updates, Value());
  Value whole = build.transpose(added, invertPermutationVector(front));
  result.replaceAllUsesExcept(whole, updates.getDefiningOp());
}
