// Checks the plan at the end of phase 5: rules V1 to V5.
#include "passes/5-schedule/Passes.h"
#include "passes/5-schedule/VerifySchedule/Keys.h"
#include "passes/5-schedule/VerifySchedule/Masks.h"

#include "dialects/parallel/Annotations.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace llmc {
#define GEN_PASS_DEF_VERIFYSCHEDULE
#include "passes/5-schedule/Passes.h.inc"

using namespace mlir;
namespace {

// Counts how often the table runs a micro-batch of a chunk.
struct Runs {
  int forward = 0, backward = 0, weight = 0;
};

LogicalResult countRow(plan::StageOp stage, plan::ProcedureOp procedure, int64_t microBatch,
                       Runs &runs) {
  switch (procedure.getKind()) {
  case plan::ProcedureKind::forward:
    ++runs.forward;
    break;
  case plan::ProcedureKind::backward:
  case plan::ProcedureKind::backward_last:
    if (++runs.backward > runs.forward)
      return stage.emitError("table runs the backward of micro-batch ")
             << microBatch << " before its forward";
    break;
  case plan::ProcedureKind::weight:
  case plan::ProcedureKind::weight_last:
    if (++runs.weight > runs.backward)
      return stage.emitError("table runs the weight gradients of micro-batch ")
             << microBatch << " before its backward";
    break;
  case plan::ProcedureKind::update:
  case plan::ProcedureKind::begin:
  case plan::ProcedureKind::exchange:
    break;
  }
  return success();
}

LogicalResult verifyTable(plan::StageOp stage, bool infer) {
  std::map<std::pair<int64_t, int64_t>, Runs> runs; // by chunk and micro-batch
  bool ended = false, split = false;
  SymbolTable procedures(stage);
  for (auto entry : stage.getTable().getAsRange<plan::EntryAttr>()) {
    if (ended)
      return stage.emitError("table goes on after the update");
    auto procedure = procedures.lookup<plan::ProcedureOp>(entry.getProcedure().getAttr());
    ended = procedure.getKind() == plan::ProcedureKind::update;
    if (ended || procedure.getKind() == plan::ProcedureKind::begin ||
        procedure.getKind() == plan::ProcedureKind::exchange)
      continue;
    split |= procedure.getKind() == plan::ProcedureKind::weight ||
             procedure.getKind() == plan::ProcedureKind::weight_last;
    int64_t microBatch = entry.getMicroBatch();
    if (failed(countRow(stage, procedure, microBatch,
                        runs[{procedure.getChunk().value_or(0), microBatch}])))
      return failure();
  }
  for (auto &[key, count] : runs) {
    if (count.forward != 1 || count.backward != (infer ? 0 : 1))
      return stage.emitError("table runs micro-batch ")
             << key.second << " " << count.forward << " times forward and " << count.backward
             << " times backward, expected once" << (infer ? " and never" : " each");
    if (split && count.weight != 1)
      return stage.emitError("table runs the weight gradients of micro-batch ")
             << key.second << " " << count.weight << " times, expected once";
  }
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
      ok &= succeeded(verifyNoMasks(stage)); // V5
      ok &= succeeded(verifyRingKeys(stage)); // V6
    }
    if (!ok)
      signalPassFailure();
  }
};

} // namespace
} // namespace llmc
