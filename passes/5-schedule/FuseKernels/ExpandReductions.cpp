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

// Builds the gradient of a norm's scale: the sum over rows of dy * xhat, in f32 where tensors are in
// a low type.
static Value gradOfScale(graph::Build &b, Operation *op) {
  auto layer = dyn_cast<graph::LayerNormGradScaleOp>(op);
  auto rms = dyn_cast<graph::RmsNormGradScaleOp>(op);
  Value rstd = asColumn(b, layer ? layer.getRstd() : rms.getRstd());
  Type element = graph::elementOf(rstd);
  Value dy = b.cast(op->getOperand(0), element), xhat = b.cast(op->getOperand(1), element);
  if (layer)
    xhat = b.sub(xhat, asColumn(b, layer.getMean()));
  Value sum = b.reduce(b.mul(dy, b.mul(xhat, rstd)), graph::ReduceKind::sum,
                       leadingDims(op->getOperand(1)));
  return b.cast(sum, graph::elementOf(op->getResult(0)));
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
    if (rank < 2 || static_cast<int64_t>(reduce.getDims().size()) != rank)
      continue;
    Value terms = b.cast(reduce.getOperand(), graph::elementOf(reduce.getResult()));
    Value rows = b.reduce(terms, reduce.getKind(), {rank - 1});
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
