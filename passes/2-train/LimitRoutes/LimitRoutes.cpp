// Puts a limit behind every choice of experts, and counts what it leaves out.
#include "passes/2-train/ForwardSums.h"
#include "passes/2-train/Passes.h"

#include "dialects/graph/Build.h"
#include "dialects/graph/GraphAttrs.h"

#include <cmath>

namespace llmc {
#define GEN_PASS_DEF_LIMITROUTES
#include "passes/2-train/Passes.h.inc"

using namespace mlir;
using namespace graph;

namespace {

struct LimitRoutes : impl::LimitRoutesBase<LimitRoutes> {
  using LimitRoutesBase::LimitRoutesBase;

  void runOnOperation() override {
    SmallVector<Value> dropped;
    int64_t choices = 0;
    getOperation().walk([&](RouteOp op) {
      if (!op.getMixture() || shapeOf(op.getRoutes()).size() < 2)
        return;
      LimitRoutesOp limit = limited(op);
      ++numRoutes;
      if (!counts)
        return;
      dropped.push_back(countDropped(limit));
      auto repeat = dyn_cast<RepeatOp>(op->getParentOp());
      choices += op.getRoutes().getType().getNumElements() * (repeat ? int64_t(repeat.getCount()) : 1);
    });
    if (dropped.empty())
      return;
    auto forward = dropped.front().getDefiningOp()->getParentOfType<func::FuncOp>();
    train::addOutput(forward, train::sumAll(forward, train::addOverLayers(forward, dropped)), kDroppedChoices);
    getOperation()->setAttr(kChoices, Builder(&getContext()).getI64IntegerAttr(choices));
  }

  LimitRoutesOp limited(RouteOp op) {
    ArrayRef<int64_t> shape = shapeOf(op.getRoutes());
    int64_t experts = shapeOf(op.getScores()).back(), choices = shape.back(), tokens = shape[shape.size() - 2];
    // Forms the product of whole numbers first: a capacity of 1 is then exact.
    double rows = std::ceil(double(tokens * choices) * capacity / double(experts));
    OpBuilder builder(op->getContext());
    builder.setInsertionPointAfter(op);
    auto limit = LimitRoutesOp::create(builder, op.getLoc(), op.getRoutes().getType(), op.getRoutes(),
                                       std::max<int64_t>(1, std::min<double>(rows, double(tokens))), experts);
    // Leaves the weights to all choices: they count in the sum by which the others are divided.
    op.getRoutes().replaceUsesWithIf(limit.getResult(), [&](OpOperand &use) {
      return use.getOwner() != limit && !isa<TakeAlongOp>(use.getOwner());
    });
    return limit;
  }

  // Returns how many choices of each row of tokens are left out. Rows stay apart, since the ranks that share them out
  // need not agree on their sum before the step ends.
  static Value countDropped(LimitRoutesOp op) {
    OpBuilder builder(op->getContext());
    builder.setInsertionPointAfter(op);
    Build b(builder, op.getLoc());
    int64_t rank = typeOf(op.getResult()).getRank();
    Value isDropped = b.compare(op.getResult(), b.constant(-1, builder.getI64Type()), Predicate::eq);
    return b.reduce(b.cast(isDropped, builder.getF32Type()), ReduceKind::sum, {rank - 2, rank - 1});
  }
};

} // namespace
} // namespace llmc
