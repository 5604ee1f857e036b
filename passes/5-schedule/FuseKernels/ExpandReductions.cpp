// Expands reductions into ones that kernels can share: of rows of a tensor at a time.
#include "passes/5-schedule/FuseKernels/Fusion.h"

#include "dialects/graph/Build.h"

using namespace mlir;

namespace llmc::fusion {

// Returns `rows`, with one element per row, as [..., 1].
static Value asColumn(graph::Build &b, Value rows) {
  SmallVector<int64_t> shape(graph::shapeOf(rows));
  shape.push_back(1);
  return b.reshape(rows, shape);
}

static SmallVector<int64_t> leadingDims(Value value) {
  return llvm::to_vector(llvm::seq<int64_t>(0, graph::typeOf(value).getRank() - 1));
}

// Builds the gradient of a norm's scale: the sum over rows of dy * xhat.
static Value gradOfScale(graph::Build &b, Operation *op) {
  if (auto norm = dyn_cast<graph::LayerNormGradScaleOp>(op)) {
    Value centred = b.sub(norm.getX(), asColumn(b, norm.getMean()));
    Value xhat = b.mul(centred, asColumn(b, norm.getRstd()));
    return b.reduce(b.mul(norm.getCotangent(), xhat), graph::ReduceKind::sum, leadingDims(norm.getX()));
  }
  auto norm = cast<graph::RmsNormGradScaleOp>(op);
  Value xhat = b.mul(norm.getX(), asColumn(b, norm.getRstd()));
  return b.reduce(b.mul(norm.getCotangent(), xhat), graph::ReduceKind::sum, leadingDims(norm.getX()));
}

void expandReductions(Block &block, llvm::DenseSet<Operation *> &whole) {
  for (Operation &op : llvm::make_early_inc_range(block)) {
    OpBuilder builder(&op);
    graph::Build b(builder, op.getLoc());
    if (isa<graph::LayerNormGradScaleOp, graph::RmsNormGradScaleOp>(op)) {
      if (graph::typeOf(op.getOperand(0)).getRank() < 2)
        continue;
      op.getResult(0).replaceAllUsesWith(gradOfScale(b, &op));
      op.erase();
      continue;
    }
    auto reduce = dyn_cast<graph::ReduceOp>(op);
    if (!reduce)
      continue;
    int64_t rank = reduce.getOperand().getType().getRank();
    if (rank < 2 || static_cast<int64_t>(reduce.getDims().size()) != rank ||
        graph::elementOf(reduce.getOperand()) != graph::elementOf(reduce.getResult()))
      continue;
    Value rows = b.reduce(reduce.getOperand(), reduce.getKind(), {rank - 1});
    // Only the first reduction takes squares.
    auto kind = reduce.getKind() == graph::ReduceKind::max ? graph::ReduceKind::max
                                                           : graph::ReduceKind::sum;
    Value all = b.reduce(rows, kind, leadingDims(reduce.getOperand()));
    whole.insert(all.getDefiningOp());
    op.getResult(0).replaceAllUsesWith(all);
    op.erase();
  }
}

} // namespace llmc::fusion
