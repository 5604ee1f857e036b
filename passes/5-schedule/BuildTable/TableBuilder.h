// Writes the tables of all stages from their schedules. Tests: test/passes/5-schedule/build-table.mlir,
// build-table-messages.mlir.
#ifndef LLMC_PASSES_SCHEDULE_BUILDTABLE_TABLEBUILDER_H
#define LLMC_PASSES_SCHEDULE_BUILDTABLE_TABLEBUILDER_H

#include "dialects/plan/Plan.h"
#include "lib/schedules/Exchanges.h"

#include "llvm/ADT/StringMap.h"
#include <map>
#include <set>

namespace llmc {

// Writes the table of one stage: its steps, and the exchanges between them.
class TableBuilder {
public:
  TableBuilder(plan::StageOp stage, std::vector<Step> steps);

  // Returns whether the message of one step may be sent in one group with the receive of what
  // another needs: no byte that is sent is received into, since members of a group are not ordered.
  bool mayJoin(size_t sent, size_t needed);
  // Returns the step that had the slot last before into which what a step needs is received; -1 if
  // none had.
  int64_t freedBy(size_t needed);

  // Sets the table and the pools of the stage, builds the exchanges that group messages, and
  // erases procedures that no entry names. Emits an error if the stage lacks a procedure.
  mlir::LogicalResult run(bool infer, llvm::ArrayRef<Exchange> exchanges);

  const std::vector<Step> steps;

private:
  plan::LaneAttr laneOf(size_t step, int64_t pool) const;
  plan::LaneAttr laneOf(const MessageEnd &end);
  int64_t poolOf(const MessageEnd &end);
  plan::ProcedureOp find(llvm::StringRef name);
  plan::ProcedureOp exchangeOf(const MessageEnd &end);
  plan::ProcedureOp procedureOf(const Step &step, bool last);
  mlir::LogicalResult addStep(size_t index);
  void add(plan::ProcedureOp procedure, plan::LaneAttr lane, llvm::ArrayRef<plan::LaneAttr> also = {});
  void addExchange(const Exchange &exchange);
  plan::ProcedureOp group(llvm::ArrayRef<plan::ProcedureOp> parts);

  plan::StageOp stage;
  mlir::MLIRContext *context;
  std::vector<Slots> slots; // of each pool
  std::map<std::pair<int64_t, StepKind>, size_t> last; // of a chunk: its last step of that kind
  llvm::SmallVector<mlir::Attribute> table;
  std::set<llvm::StringRef> used;
  llvm::StringMap<plan::ProcedureOp> procedures; // caches find()
};

} // namespace llmc

#endif // LLMC_PASSES_SCHEDULE_BUILDTABLE_TABLEBUILDER_H
