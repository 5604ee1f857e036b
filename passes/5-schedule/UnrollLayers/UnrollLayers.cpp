// Replaces every repeat of a stage by its layers.
#include "passes/5-schedule/Passes.h"

#include "dialects/graph/Repeat.h"

namespace llmc {
#define GEN_PASS_DEF_UNROLLLAYERS
#include "passes/5-schedule/Passes.h.inc"

namespace {
struct UnrollLayers : impl::UnrollLayersBase<UnrollLayers> {
  void runOnOperation() override {
    llvm::SmallVector<graph::RepeatOp> repeats;
    // Post-order: inner repeats first, so that copies of an outer body hold none.
    getOperation().walk([&](graph::RepeatOp op) { repeats.push_back(op); });
    for (graph::RepeatOp op : repeats) {
      mlir::OpBuilder builder(op);
      if (failed(graph::unrollRepeat(builder, op)))
        return signalPassFailure();
    }
  }
};
} // namespace
} // namespace llmc
