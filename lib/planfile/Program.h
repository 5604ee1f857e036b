// Serializes plan files (bytes <-> planfile::ProgramT), and computes the few facts about a plan
// on which compiler and runtime must agree. Tests: test/runtime/PlanFileTest.cpp.
#ifndef LLMC_LIB_PLANFILE_PROGRAM_H
#define LLMC_LIB_PLANFILE_PROGRAM_H

#include "lib/planfile/plan_generated.h"
#include "lib/support/Error.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace llmc::planfile {

// Identifies the version of plan.fbs that this code writes and reads.
inline constexpr uint32_t kPlanVersion = 6;

// Returns the bytes of a plan file. `program.version` is written as it is.
std::string writeProgram(const ProgramT &program);

// Reads a plan file of any origin: the structure is verified, the version is compared, and
// checkBounds() must accept the plan. An error otherwise; no bytes make it crash.
support::Result<std::unique_ptr<ProgramT>> readProgram(std::string_view bytes);

// Checks that every enum, index, count and buffer of `program` lies where plan.fbs allows it, so
// that an executor may follow any of them unchecked. Returns the first fault. Defined in
// Bounds.cpp.
support::Status checkBounds(const ProgramT &program);

// Returns the bytes of one element.
uint64_t byteSize(DType type);

// Counts the ranks of the mesh; coordinateOf() and rankOf() convert between a rank and its
// coordinate over all axes.
uint32_t rankCount(const MeshT &mesh);
std::vector<uint32_t> coordinateOf(const MeshT &mesh, uint32_t rank);
uint32_t rankOf(const MeshT &mesh, const std::vector<uint32_t> &coordinate);

// Returns the stage that a rank runs.
uint32_t stageOf(const ProgramT &program, uint32_t rank);

// Returns the ranks that take part in a collective together with `rank`, in group order.
std::vector<uint32_t> groupOf(const MeshT &mesh, const CollectiveT &collective,
                              uint32_t rank);

// Returns the bytes of the whole payload of one call on one rank: what is reduced or sent for
// AllReduce and Broadcast, all members' shards for AllGather and ReduceScatter, all of the local
// send buffer for AllToAll and ExchangeRows.
uint64_t payloadBytes(const MeshT &mesh, const CollectiveT &collective);

// Holds the common fields of a Send and a Recv. `parts` points into the instruction.
struct Message {
  bool sends = false;
  uint32_t axis = 0;
  int32_t delta = 0;
  uint32_t channel = 0;
  bool wrap = false, grouped = false;
  const std::vector<std::unique_ptr<BufferRefT>> *parts = nullptr;
};
// Returns the message of a Send or Recv; nullopt for any other instruction.
std::optional<Message> messageOf(const InstructionT &instruction);

// Returns the rank at the other end of a Send or Recv of `rank`.
uint32_t peerOf(const MeshT &mesh, uint32_t rank, const Message &message);

// Returns the pool, micro-batch and slot that an entry of the table gives to a lane; those of
// lane 0 if it has no such lane.
SlotRef slotOf(const EntryT &entry, uint32_t lane);
// Returns the lane that tells the micro-batch of an instruction: that of its event, of the first
// part of its message, or of what it feeds; else 0.
uint32_t laneOf(const InstructionT &instruction);
// Returns the number of each pool's first slot in one numbering of all slots of the stage; the
// last element is their count. An event has one instance for each slot.
std::vector<uint32_t> slotNumbers(const StageT &stage);

// Returns the view of a state. Roles other than the parameter may omit it: it is then that of the
// stage's parameter of the same name and shape. Returns null if there is none.
const ViewT *viewOf(const StageT &stage, const StateShardT &state);

// Evaluates an affine expression at a rank's coordinate; overflow wraps.
int64_t evaluate(const CoordExprT &expr, const std::vector<uint32_t> &coordinate);

// Spells the enums of a plan for `inspect` and reports: "all_reduce", "forward", "launch", ...
std::string_view toString(CollectiveKind kind);
std::string_view toString(Phase phase);
std::string_view toString(Body kind);
std::string_view toString(DType type);
std::string_view toString(StateRole role);
// Returns NumPy's name of a type: "float32", "int64", "bool", ...
std::string_view numpyName(DType type);

} // namespace llmc::planfile

#endif // LLMC_LIB_PLANFILE_PROGRAM_H
