// Orders the procedures of a step: GPipe or 1F1B.
#include "passes/5-schedule/Passes.h"

#include "dialects/parallel/Annotations.h"

namespace llmc {
#define GEN_PASS_DEF_BUILDTABLE
#include "passes/5-schedule/Passes.h.inc"

using namespace mlir;
namespace {

struct Step {
  bool forward;
  int64_t microBatch;
};

// Huang et al., 2019, figure 2: all forwards, then all backwards.
std::vector<Step> gpipe(int64_t m) {
  std::vector<Step> steps;
  for (int64_t i = 0; i < m; ++i)
    steps.push_back({true, i});
  for (int64_t i = 0; i < m; ++i)
    steps.push_back({false, i});
  return steps;
}

// Narayanan et al., 2021, figure 4 (top): stage s of p runs p-s-1 forwards ahead.
std::vector<Step> oneFOneB(int64_t m, int64_t stage, int64_t stages) {
  std::vector<Step> steps;
  int64_t ahead = std::min(m, stages - stage - 1), forward = 0, backward = 0;
  while (forward < ahead)
    steps.push_back({true, forward++});
  while (backward < m) {
    if (forward < m)
      steps.push_back({true, forward++});
    steps.push_back({false, backward++});
  }
  return steps;
}

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
      if (parallel::isInference(module))
        buildForward(stage);
      else
        build(stage, stages);
  }

  // Nothing is kept from one micro-batch to the next, and no neighbour is waited for.
  void buildForward(plan::StageOp stage) {
    SmallVector<Attribute> table;
    for (int64_t m = 0; m < microBatches; ++m)
      table.push_back(plan::EntryAttr::get(
          &getContext(), FlatSymbolRefAttr::get(&getContext(), "forward"), m, 0));
    stage.setTableAttr(ArrayAttr::get(&getContext(), table));
    stage.setSlots(1);
  }

  void build(plan::StageOp stage, int64_t stages) {
    int64_t m = microBatches, s = stage.getStage();
    bool all = schedule == "gpipe";
    int64_t slots = all ? m : std::min(m, stages - s);
    MLIRContext *context = &getContext();
    SmallVector<Attribute> table;
    std::set<StringRef> used;
    auto add = [&](StringRef procedure, int64_t microBatch) {
      used.insert(procedure);
      table.push_back(plan::EntryAttr::get(context, FlatSymbolRefAttr::get(context, procedure),
                                           microBatch, microBatch % slots));
    };
    add("begin", 0);
    for (Step step : all ? gpipe(m) : oneFOneB(m, s, stages))
      add(step.forward                 ? "forward"
          : step.microBatch == m - 1 ? "backward_last"
                                       : "backward",
          step.microBatch);
    add("update", 0);
    for (auto procedure : llvm::to_vector(stage.getBody().getOps<plan::ProcedureOp>()))
      if (!used.count(procedure.getSymName()))
        procedure.erase();
    stage.setTableAttr(ArrayAttr::get(context, table));
    stage.setSlots(slots);
  }
};

} // namespace
} // namespace llmc
