// Plan files: bytes <-> planfile::ProgramT, and the few facts about a plan that
// compiler and runtime must compute alike.
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

// Version of plan.fbs that this code writes and reads.
inline constexpr uint32_t kPlanVersion = 5;

// Bytes of a plan file. `program.version` is written as it stands.
std::string writeProgram(const ProgramT &program);

// Reads a plan file of any origin: the structure is verified, the version
// compared, then checkBounds() must hold. Never crashes, whatever the bytes.
support::Result<std::unique_ptr<ProgramT>> readProgram(std::string_view bytes);

// Every enum, index, count and buffer of `program` lies where plan.fbs says:
// after this an executor may follow any of them without looking.
// Defined in Bounds.cpp.
support::Status checkBounds(const ProgramT &program);

// Bytes of one element.
uint64_t byteSize(DType type);

// Ranks of the mesh; the coordinate of a rank over all axes and back.
uint32_t rankCount(const MeshT &mesh);
std::vector<uint32_t> coordinateOf(const MeshT &mesh, uint32_t rank);
uint32_t rankOf(const MeshT &mesh, const std::vector<uint32_t> &coordinate);

// The stage that a rank runs.
uint32_t stageOf(const ProgramT &program, uint32_t rank);

// The ranks that take part in a collective together with `rank`, in group order.
std::vector<uint32_t> groupOf(const MeshT &mesh, const CollectiveT &collective,
                              uint32_t rank);

// Bytes of the whole payload of one call on one rank: what is reduced or sent
// for AllReduce and Broadcast, all members' shards for AllGather, ReduceScatter, all of
// the local send buffer for AllToAll.
uint64_t payloadBytes(const MeshT &mesh, const CollectiveT &collective);

// What a Send and a Recv have in common.
struct Message {
  bool sends = false;
  uint32_t axis = 0;
  int32_t delta = 0;
  uint32_t channel = 0;
  bool wrap = false, grouped = false;
  const std::vector<std::unique_ptr<BufferRefT>> *parts = nullptr;
};
// Nothing for any other instruction.
std::optional<Message> messageOf(const InstructionT &instruction);

// The partner of a Send or Recv at `rank`.
uint32_t peerOf(const MeshT &mesh, uint32_t rank, const Message &message);

// Pool, micro-batch and slot that an entry of the table gives to a lane.
SlotRef slotOf(const EntryT &entry, uint32_t lane);
// The lane that says of which micro-batch an instruction is: of its event, of the first
// part of its message, of what it feeds; else 0.
uint32_t laneOf(const InstructionT &instruction);
// Numbers the slots of all pools of a stage: those of pool p begin at [p]; the last
// element is their count. Events have one instance for each.
std::vector<uint32_t> slotNumbers(const StageT &stage);

int64_t evaluate(const CoordExprT &expr, const std::vector<uint32_t> &coordinate);

// Spellings of inspect and reports: "all_reduce", "forward", "launch", ...
std::string_view toString(CollectiveKind kind);
std::string_view toString(Phase phase);
std::string_view toString(Body kind);
std::string_view toString(DType type);
std::string_view toString(StateRole role);
// NumPy's: "float32", "int64", "bool", ...
std::string_view numpyName(DType type);

} // namespace llmc::planfile

#endif // LLMC_LIB_PLANFILE_PROGRAM_H
