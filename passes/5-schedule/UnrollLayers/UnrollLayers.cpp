// Replaces every repeat of a stage by its layers.
#include "passes/5-schedule/Passes.h"

#include "dialects/graph/Repeat.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace llmc {
#define GEN_PASS_DEF_UNROLLLAYERS
#include "passes/5-schedule/Passes.h.inc"

using namespace mlir;
namespace {

// The first of the model's layers that a stage's repeat runs: that of the
// stacked states it reads.
int64_t firstLayerOf(graph::RepeatOp op) {
  for (Value operand : op.getStacked()) {
    auto arg = dyn_cast<BlockArgument>(operand);
    auto func = arg ? dyn_cast<func::FuncOp>(arg.getOwner()->getParentOp()) : func::FuncOp();
    auto layers = func ? func.getArgAttrOfType<DenseI64ArrayAttr>(arg.getArgNumber(), "parallel.layers")
                       : DenseI64ArrayAttr();
    if (layers)
      return layers[0];
  }
  return 0;
}

struct UnrollLayers : impl::UnrollLayersBase<UnrollLayers> {
  void runOnOperation() override {
    llvm::SmallVector<graph::RepeatOp> repeats;
    // Post-order: inner repeats first, so that copies of an outer body hold none.
    getOperation().walk([&](graph::RepeatOp op) { repeats.push_back(op); });
    for (graph::RepeatOp op : repeats) {
      mlir::OpBuilder builder(op);
      if (failed(graph::unrollRepeat(builder, op, firstLayerOf(op))))
        return signalPassFailure();
    }
  }
};
} // namespace
} // namespace llmc
