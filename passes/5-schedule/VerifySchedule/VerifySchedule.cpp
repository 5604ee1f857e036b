// Gate of phase 5.
#include "passes/5-schedule/Passes.h"

#include "dialects/parallel/Annotations.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace llmc {
#define GEN_PASS_DEF_VERIFYSCHEDULE
#include "passes/5-schedule/Passes.h.inc"

using namespace mlir;
namespace {

LogicalResult verifyTable(plan::StageOp stage, bool infer) {
  std::map<int64_t, std::pair<int64_t, int64_t>> runs; // micro-batch -> forwards, backwards
  bool ended = false;
  SymbolTable procedures(stage);
  for (auto entry : stage.getTable().getAsRange<plan::EntryAttr>()) {
    if (ended)
      return stage.emitError("table goes on after the update");
    auto procedure = procedures.lookup<plan::ProcedureOp>(entry.getProcedure().getAttr());
    auto &[forwards, backwards] = runs[entry.getMicroBatch()];
    switch (procedure.getKind()) {
    case plan::ProcedureKind::forward:
      ++forwards;
      break;
    case plan::ProcedureKind::backward:
    case plan::ProcedureKind::backward_last:
      if (++backwards > forwards)
        return stage.emitError("table runs the backward of micro-batch ")
               << entry.getMicroBatch() << " before its forward";
      break;
    case plan::ProcedureKind::update:
      ended = true;
      break;
    case plan::ProcedureKind::begin:
      break;
    }
  }
  for (auto &[microBatch, count] : runs)
    if (count.first != 1 || count.second != (infer ? 0 : 1))
      return stage.emitError("table runs micro-batch ")
             << microBatch << " " << count.first << " times forward and " << count.second
             << " times backward, expected once" << (infer ? " and never" : " each");
  if (infer && ended)
    return stage.emitError("table of an inference has an update");
  if (!infer && !ended)
    return stage.emitError("table does not end with an update");
  return success();
}

struct VerifySchedule : impl::VerifyScheduleBase<VerifySchedule> {
  void runOnOperation() override {
    bool ok = true;
    for (auto func : getOperation().getOps<func::FuncOp>()) { // V1
      func.emitError("function of graph ops is left after scheduling");
      ok = false;
    }
    for (auto stage : getOperation().getOps<plan::StageOp>()) {
      if (!stage.getArenaBytes()) { // V2
        stage.emitError("has no arena_bytes");
        ok = false;
      }
      for (auto buffer : stage.getBody().getOps<plan::BufferOp>())
        if (!buffer.getParent() && !buffer.getOffset()) {
          buffer.emitError("has no offset");
          ok = false;
        }
      stage.walk([&](plan::CollectiveOp op) { // V3
        if (!op.getOrigin()) {
          op.emitError("collective has no origin");
          ok = false;
        }
      });
      ok &= succeeded(verifyTable(stage, parallel::isInference(getOperation()))); // V4
    }
    if (!ok)
      signalPassFailure();
  }
};

} // namespace
} // namespace llmc
