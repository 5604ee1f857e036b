// Puts a limit behind every choice of experts.
#include "passes/2-train/Passes.h"

#include "dialects/graph/Build.h"
#include "dialects/parallel/Annotations.h"

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
    getOperation().walk([&](RouteOp op) {
      ArrayRef<int64_t> shape = shapeOf(op.getRoutes());
      if (shape.size() < 2)
        return;
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
      ++numRoutes;
    });
  }
};

} // namespace
} // namespace llmc
