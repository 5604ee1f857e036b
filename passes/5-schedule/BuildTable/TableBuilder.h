// Writes the table of one stage from its schedule. Tests: test/passes/5-schedule/build-table.mlir,
// build-table-messages.mlir.
#ifndef LLMC_PASSES_SCHEDULE_BUILDTABLE_TABLEBUILDER_H
#define LLMC_PASSES_SCHEDULE_BUILDTABLE_TABLEBUILDER_H

#include "dialects/plan/Plan.h"
#include "passes/5-schedule/BuildTable/Schedules.h"

#include "llvm/ADT/StringMap.h"
#include <map>
#include <set>

namespace llmc {

// Assigns slots and builds the table. A micro-batch of a chunk takes the lowest free slot of the
// chunk's pool when it runs forward, and frees it after its last step. A message leaves when its
// procedure has run. What a procedure needs is received in one group with the message that left
// last before it, or else one step early where its slot is free by then.
class TableBuilder {
public:
  TableBuilder(plan::StageOp stage, std::vector<Step> steps)
      : stage(stage), steps(std::move(steps)), context(stage.getContext()) {}

  // Sets the table and the pools of the stage, builds the exchanges that group two messages, and
  // erases procedures that no entry names. Emits an error if the stage lacks a procedure.
  mlir::LogicalResult run(bool infer);

private:
  // Identifies a message: its exchange, and the micro-batch and slot that it is for.
  struct Message {
    plan::ProcedureOp procedure;
    plan::LaneAttr lane;
  };
  void assignSlots();
  plan::LaneAttr laneOf(const Step &step) const;
  plan::ProcedureOp find(llvm::StringRef name);
  std::optional<Message> messageOf(const Step &step, bool send);
  plan::ProcedureOp procedureOf(const Step &step, bool last);
  mlir::LogicalResult addStep(size_t index);
  void add(plan::ProcedureOp procedure, plan::LaneAttr lane, std::optional<plan::LaneAttr> also = {});
  void flush(std::optional<Message> received);
  plan::ProcedureOp group(plan::ProcedureOp send, plan::ProcedureOp receive);
  bool mayGroup(const Message &send, const Message &receive) const;
  bool mayComeEarly(size_t index) const;

  plan::StageOp stage;
  std::vector<Step> steps;
  mlir::MLIRContext *context;
  std::map<std::pair<int64_t, int64_t>, int64_t> slots; // (chunk, micro-batch) -> slot
  std::vector<int64_t> poolSlots;                       // by chunk
  std::map<std::pair<int64_t, StepKind>, size_t> last;  // of a chunk: its last step of that kind
  std::optional<Message> leaving; // a message that is not in the table yet
  std::set<size_t> received;      // steps whose message was received early
  llvm::SmallVector<mlir::Attribute> table;
  std::set<llvm::StringRef> used;
  llvm::StringMap<plan::ProcedureOp> procedures; // caches find()
};

} // namespace llmc

#endif // LLMC_PASSES_SCHEDULE_BUILDTABLE_TABLEBUILDER_H
