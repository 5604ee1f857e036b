#include "passes/5-schedule/Passes.h"
#include "passes/5-schedule/Slices.h"

#include "dialects/graph/Build.h"
#include "dialects/parallel/Annotations.h"
#include "dialects/parallel/Parallel.h"

#include <numeric>

namespace llmc {
#define GEN_PASS_DEF_LOWERCOLLECTIVES
#include "passes/5-schedule/Passes.h.inc"

using namespace mlir;
namespace {

int64_t product(ArrayRef<int64_t> sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t(1), std::multiplies<>());
}

// Brings dimension `dim` of `value` to the front, or back again. Returns a reshape if that moves no
// bytes.
Value moveDim(graph::Build &at, Value value, int64_t dim, bool back) {
  ArrayRef<int64_t> shape = graph::shapeOf(value);
  SmallVector<int64_t> order(shape.size());
  std::iota(order.begin(), order.end(), 0);
  if (back)
    std::rotate(order.begin(), order.begin() + 1, order.begin() + dim + 1);
  else
    std::rotate(order.begin(), order.begin() + dim, order.begin() + dim + 1);
  SmallVector<int64_t> moved;
  for (int64_t d : order)
    moved.push_back(shape[d]);
  // Moving a dimension past dimensions of size 1 moves no bytes.
  ArrayRef<int64_t> passed = back ? shape.slice(1, dim) : shape.take_front(dim);
  return product(passed) == 1 ? at.reshape(value, moved) : at.transpose(value, order);
}

// Brings the dimension along which members' parts are joined or cut to the front, where its parts are
// contiguous, and back; unless the few slices behind the dimensions before it can be moved each for itself.
void lowerAlong(Operation *op, int64_t dim) {
  if (slicesOf(op) <= kMostSlices)
    return;
  OpBuilder builder(op);
  graph::Build at(builder, op->getLoc());
  Value front = moveDim(at, op->getOperand(0), dim, /*back=*/false);
  auto type = cast<RankedTensorType>(op->getResult(0).getType());
  SmallVector<int64_t> shape(type.getShape());
  std::rotate(shape.begin(), shape.begin() + dim, shape.begin() + dim + 1);
  Operation *copy = builder.clone(*op);
  copy->setOperand(0, front);
  copy->setAttr("dim", builder.getI64IntegerAttr(0));
  copy->getResult(0).setType(RankedTensorType::get(shape, type.getElementType()));
  op->getResult(0).replaceAllUsesWith(moveDim(at, copy->getResult(0), dim, /*back=*/true));
  op->erase();
}

// Rewrites an all-to-all to dimension 0, where the parts of the members are contiguous: splits
// `split` into members and parts, and merges members into `concat` afterwards.
void lowerExchange(parallel::AllToAllOp op) {
  OpBuilder builder(op);
  graph::Build at(builder, op.getLoc());
  int64_t split = op.getSplit(), concat = op.getConcat();
  SmallVector<int64_t> shape(graph::shapeOf(op.getOperand()));
  int64_t members =
      split != concat
          ? shape[split] / graph::shapeOf(op.getResult())[split]
          : parallel::getGroupSize(parallel::getMesh(op),
                                   llvm::to_vector(op.getAxes().getAsRange<StringAttr>()));
  shape[split] /= members;
  shape.insert(shape.begin() + split, members);
  Value front = moveDim(at, at.reshape(op.getOperand(), shape), split, /*back=*/false);
  Value exchanged = parallel::AllToAllOp::create(builder, op.getLoc(), front.getType(), front,
                                                 op.getAxes(), 0, 0);
  exchanged.getDefiningOp()->setDiscardableAttrs(op->getDiscardableAttrDictionary());
  Value moved = moveDim(at, exchanged, concat, /*back=*/true);
  op.getResult().replaceAllUsesWith(at.reshape(moved, graph::shapeOf(op.getResult())));
  op.erase();
}

// Caches row indices by block, axes, rows before the cut dimension and members.
using Rows = std::map<std::tuple<Block *, const void *, int64_t, int64_t>, Value>;

// Rewrites x[..., offset + i, ...] as a lookup of rows of x, seen as a table of before * members rows,
// each the part of one member: as many indices as there are contiguous parts. Tensors that are cut
// alike share the indices.
void lowerSlice(parallel::AllSliceOp op, Rows &made) {
  OpBuilder builder(op);
  graph::Build at(builder, op.getLoc());
  Value operand = op.getOperand();
  ArrayRef<int64_t> shape = graph::shapeOf(operand);
  int64_t dim = op.getDim(), part = graph::shapeOf(op.getResult())[dim], members = shape[dim] / part,
          before = product(shape.take_front(dim)), behind = product(shape.drop_front(dim + 1));
  Type index = builder.getI64Type();
  Value &row = made[{op->getBlock(), op.getAxes().getAsOpaquePointer(), before, members}];
  if (!row) {
    auto ids = RankedTensorType::get({before}, index);
    Value own = parallel::AxisOffsetOp::create(builder, op.getLoc(), RankedTensorType::get({}, index),
                                               op.getAxes(), /*size=*/1);
    row = graph::IotaOp::create(builder, op.getLoc(), ids, before > 1 ? Value() : own, 0);
    if (before > 1)
      row = at.add(at.mul(row, at.constant(members, index)), own);
  }
  Value table = at.reshape(operand, {before * members, part * behind});
  Value rows = graph::GatherOp::create(
      builder, op.getLoc(),
      RankedTensorType::get({before, part * behind}, graph::elementOf(operand)), table, row, Value());
  op.getResult().replaceAllUsesWith(at.reshape(rows, graph::shapeOf(op.getResult())));
  op.erase();
}

struct LowerCollectives : impl::LowerCollectivesBase<LowerCollectives> {
  void runOnOperation() override {
    SmallVector<Operation *> ops;
    getOperation().walk([&](Operation *op) {
      if (isa<parallel::AllGatherOp, parallel::ReduceScatterOp, parallel::AllToAllOp,
              parallel::AllSliceOp>(op))
        ops.push_back(op);
    });
    Rows rows;
    for (Operation *op : ops) {
      if (auto slice = dyn_cast<parallel::AllSliceOp>(op))
        lowerSlice(slice, rows);
      else if (auto exchange = dyn_cast<parallel::AllToAllOp>(op)) {
        if (exchange.getSplit() != 0 || exchange.getConcat() != 0)
          lowerExchange(exchange);
      } else if (int64_t dim = op->getAttrOfType<IntegerAttr>("dim").getInt())
        lowerAlong(op, dim);
    }
  }
};

} // namespace
} // namespace llmc
