// Tactic `data`: cuts the rows of a micro-batch over the axis dp.
#include "passes/3-shard/Passes.h"

#include "passes/3-shard/Propagation.h"

namespace llmc {
#define GEN_PASS_DEF_SHARDDATA
#include "passes/3-shard/Passes.h.inc"

using namespace mlir;
namespace {
struct ShardData : impl::ShardDataBase<ShardData> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    parallel::MeshAttr mesh = parallel::getMesh(module);
    auto micro = module.lookupSymbol<func::FuncOp>("micro");
    if (!mesh || !micro) {
      module.emitError("tactic data needs @micro and parallel.mesh");
      return signalPassFailure();
    }
    int64_t parts = mesh.getSize("dp");
    if (parts == 1)
      return;
    AxisPropagation axis(module, "dp", {"data", /*mayCutStates=*/false});
    for (BlockArgument arg : micro.getArguments()) {
      auto input = micro.getArgAttrOfType<StringAttr>(arg.getArgNumber(), parallel::kInput);
      if (!input)
        continue;
      if (!axis.canCut(arg, 0)) {
        int64_t rows = cast<RankedTensorType>(arg.getType()).getDimSize(0);
        micro.emitError("input ") << input << " has " << rows << " rows, which " << parts
                                  << " data-parallel ranks cannot share; the nearest valid sizes are "
                                  << std::max(parts, rows / parts * parts) << " and "
                                  << (rows / parts + 1) * parts;
        return signalPassFailure();
      }
      axis.cut(arg, 0, input.getValue());
    }
    axis.write();
    axis.reportConflicts();
  }
};
} // namespace
} // namespace llmc
