// Implements tactic `data`: cuts the rows of a micro-batch over the data axes.
#include "passes/3-shard/Passes.h"

#include "passes/3-shard/Propagation.h"

namespace llmc {
#define GEN_PASS_DEF_SHARDDATA
#include "passes/3-shard/Passes.h.inc"

using namespace mlir;
using namespace parallel;
namespace {
// Returns the arguments whose rows are divided: all inputs of a micro-batch, or the batched inputs
// (graph.batched) of an inference.
SmallVector<BlockArgument> batchedInputs(func::FuncOp func, bool infer) {
  SmallVector<BlockArgument> inputs;
  for (BlockArgument arg : func.getArguments())
    if (func.getArgAttr(arg.getArgNumber(), infer ? kBatched : kInput))
      inputs.push_back(arg);
  return inputs;
}

struct ShardData : impl::ShardDataBase<ShardData> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    MeshAttr mesh = getMesh(module);
    func::FuncOp func = getStepFunction(module);
    bool infer = isInference(module);
    if (!mesh || !func) {
      module.emitError("tactic data needs @") << (infer ? "forward" : "micro")
                                              << " and parallel.mesh";
      return signalPassFailure();
    }
    int64_t parts = mesh.getSize(planfile::AxisRole::Data);
    if (parts == 1)
      return;
    AxisPropagation axis(module, mesh.getAxes(planfile::AxisRole::Data),
                         {"data", /*mayCutStates=*/false});
    SmallVector<BlockArgument> inputs = batchedInputs(func, infer);
    if (inputs.empty()) {
      func.emitError("no input has a batch that dp = ") << parts << " ranks could share; use dp = 1";
      return signalPassFailure();
    }
    for (BlockArgument arg : inputs) {
      auto name = func.getArgAttrOfType<StringAttr>(arg.getArgNumber(), kInput);
      auto type = cast<RankedTensorType>(arg.getType());
      if (type.getRank() == 0 || !axis.canCut(arg, 0)) {
        int64_t rows = type.getRank() ? type.getDimSize(0) : 1;
        int64_t below = rows / parts * parts;
        auto error = func.emitError("input ")
                     << name << " has " << rows << " rows, which " << parts
                     << " data-parallel ranks cannot share; the nearest valid size";
        if (below)
          error << "s are " << below << " and " << below + parts;
        else
          error << " is " << parts;
        return signalPassFailure();
      }
      axis.cut(arg, 0, name.getValue());
    }
    axis.write();
    axis.reportConflicts();
  }
};
} // namespace
} // namespace llmc
