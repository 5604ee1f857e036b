// Orders the procedures of a step: GPipe or 1F1B.
#include "passes/5-schedule/Passes.h"

#include "dialects/parallel/Annotations.h"
#include "passes/5-schedule/BuildTable/Schedules.h"
#include "passes/5-schedule/BuildTable/TableBuilder.h"

namespace llmc {
#define GEN_PASS_DEF_BUILDTABLE
#include "passes/5-schedule/Passes.h.inc"

using namespace mlir;
namespace {

struct BuildTable : impl::BuildTableBase<BuildTable> {
  using BuildTableBase::BuildTableBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (schedule != "gpipe" && schedule != "1f1b") {
      module.emitError("unknown schedule '") << schedule << "'; known are gpipe and 1f1b";
      return signalPassFailure();
    }
    if (microBatches < 1) {
      module.emitError("a step needs at least one micro-batch, got ") << microBatches.getValue();
      return signalPassFailure();
    }
    int64_t stages = llvm::range_size(module.getOps<plan::StageOp>());
    for (auto stage : module.getOps<plan::StageOp>())
      if (failed(build(stage, stages, parallel::isInference(module))))
        return signalPassFailure();
  }

  LogicalResult build(plan::StageOp stage, int64_t stages, bool infer) {
    if (stage.getChunks().size() != 1)
      return stage.emitError("has ") << stage.getChunks().size() << " chunks of layers; " << schedule
                                     << " runs one a stage";
    int64_t m = microBatches, s = stage.getStage();
    std::vector<Step> steps = infer                 ? forwards(m)
                              : schedule == "gpipe" ? gpipe(m)
                                                    : oneFOneB(m, s, stages);
    TableBuilder table(stage, steps);
    if (failed(table.run(infer)))
      return failure();
    return success();
  }
};

} // namespace
} // namespace llmc
