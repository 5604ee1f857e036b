// Replaces every repeat of a stage by its layers.
#include "dialects/parallel/Annotations.h"
#include "passes/5-schedule/Passes.h"

#include "dialects/graph/Build.h"
#include "dialects/graph/Repeat.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace llmc {
#define GEN_PASS_DEF_UNROLLLAYERS
#include "passes/5-schedule/Passes.h.inc"

using namespace mlir;
namespace {

// Returns the first of the model's layers that a stage's repeat runs: that of the stacked states
// that it reads, or 0.
int64_t firstLayerOf(graph::RepeatOp op) {
  for (Value operand : op.getStacked()) {
    auto arg = dyn_cast<BlockArgument>(operand);
    auto func = arg ? dyn_cast<func::FuncOp>(arg.getOwner()->getParentOp()) : func::FuncOp();
    auto layers = func ? func.getArgAttrOfType<DenseI64ArrayAttr>(arg.getArgNumber(), parallel::kLayers)
                       : DenseI64ArrayAttr();
    if (layers)
      return layers[0];
  }
  return 0;
}

// Replaces a slice of a concatenation that is exactly one of its parts by that part, and erases
// dead slices and concatenations.
void skipStacks(func::FuncOp func) {
  func.walk([](graph::SliceOp slice) {
    auto concat = slice.getOperand().getDefiningOp<graph::ConcatOp>();
    if (!concat || concat.getDim() != 0)
      return;
    int64_t begin = 0;
    for (Value part : concat.getInputs()) {
      if (begin == slice.getStarts()[0] && part.getType() == slice.getType() &&
          llvm::all_of(slice.getSteps(), [](int64_t step) { return step == 1; })) {
        slice.replaceAllUsesWith(part);
        return;
      }
      begin += graph::shapeOf(part)[0];
    }
  });
  SmallVector<Operation *> ops;
  for (Operation &op : llvm::reverse(func.getBody().front()))
    ops.push_back(&op);
  for (Operation *op : ops)
    if (isa<graph::SliceOp, graph::ConcatOp>(op) && op->use_empty())
      op->erase();
}

struct UnrollLayers : impl::UnrollLayersBase<UnrollLayers> {
  void runOnOperation() override {
    llvm::SmallVector<graph::RepeatOp> repeats;
    // Collects inner repeats first (post-order), so that copies of an outer body hold none.
    getOperation().walk([&](graph::RepeatOp op) { repeats.push_back(op); });
    for (graph::RepeatOp op : repeats) {
      mlir::OpBuilder builder(op);
      if (failed(graph::unrollRepeat(builder, op, firstLayerOf(op))))
        return signalPassFailure();
    }
    for (auto func : getOperation().getOps<func::FuncOp>())
      skipStacks(func);
  }
};
} // namespace
} // namespace llmc
