// Orders the procedures of a step.
#include "passes/5-schedule/Passes.h"

#include "dialects/parallel/Annotations.h"
#include "passes/5-schedule/BuildTable/TableBuilder.h"

#include <deque>

namespace llmc {
#define GEN_PASS_DEF_BUILDTABLE
#include "passes/5-schedule/Passes.h.inc"

using namespace mlir;
namespace {

struct BuildTable : impl::BuildTableBase<BuildTable> {
  using BuildTableBase::BuildTableBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (!llvm::is_contained(kSchedules, std::string_view(schedule))) {
      module.emitError("unknown schedule '")
          << schedule << "'; known are gpipe, 1f1b, interleaved and zero-bubble";
      return signalPassFailure();
    }
    if (microBatches < 1) {
      module.emitError("a step needs at least one micro-batch, got ") << microBatches.getValue();
      return signalPassFailure();
    }
    SmallVector<plan::StageOp> stages(module.getOps<plan::StageOp>());
    if (!stages.empty() && failed(build(stages, parallel::isInference(module))))
      signalPassFailure();
  }

private:
  LogicalResult build(ArrayRef<plan::StageOp> stages, bool infer) {
    int64_t p = stages.size(), v = plan::StageOp(stages.front()).getChunks().size(), m = microBatches;
    std::deque<TableBuilder> tables;
    std::vector<std::vector<Step>> steps;
    for (auto [index, stage] : llvm::enumerate(stages)) {
      if (failed(checkChunks(stage, v, p, infer)))
        return failure();
      tables.emplace_back(stage, infer ? forwards(m) : stepsOf(schedule.getValue(), m, v, int64_t(index), p));
      steps.push_back(tables.back().steps);
    }
    auto columns = columnsOf(steps, v);
    if (!columns)
      return plan::StageOp(stages.front()).emitError("schedule ") << schedule << " blocks itself";
    auto exchanges = exchangesOf(
        steps, *columns, v, [&](size_t stage, size_t needed) { return tables[stage].freedBy(needed); },
        [&](size_t stage, size_t sent, size_t needed) { return tables[stage].mayJoin(sent, needed); });
    for (auto [table, own] : llvm::zip(tables, exchanges))
      if (failed(table.run(infer, own)))
        return failure();
    return success();
  }

  // Checks that the schedule runs as many chunks of layers as the stage has.
  LogicalResult checkChunks(plan::StageOp stage, int64_t chunks, int64_t stages, bool infer) const {
    int64_t own = stage.getChunks().size();
    if (own != chunks)
      return stage.emitError("has ") << own << " chunks of layers, the first stage has " << chunks;
    if (schedule != "interleaved" && own != 1)
      return stage.emitError("has ") << own << " chunks of layers; " << schedule << " runs one a stage";
    if (infer && own != 1)
      return stage.emitError("has ") << own << " chunks of layers; an inference runs one a stage";
    for (auto procedure : stage.getBody().getOps<plan::ProcedureOp>())
      if (procedure.getKind() == plan::ProcedureKind::weight && schedule != "zero-bubble")
        return procedure.emitError("holds weight gradients apart; ") << schedule << " runs backward as a whole";
    if (schedule == "interleaved" && !infer && microBatches % stages != 0)
      return stage.emitError("interleaved runs micro-batches in groups of ")
             << stages << ", got " << microBatches.getValue() << " of them";
    return success();
  }
};

} // namespace
} // namespace llmc
