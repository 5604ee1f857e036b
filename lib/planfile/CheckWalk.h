// What the checkers and the report share: the plan's instructions expanded by
// the tables of all stages, the bytes each touches, and who meets whom.
#ifndef LLMC_LIB_PLANFILE_CHECKWALK_H
#define LLMC_LIB_PLANFILE_CHECKWALK_H

#include "lib/planfile/Check.h"
#include "lib/planfile/Program.h"

#include <functional>
#include <set>
#include <tuple>

namespace llmc::planfile {

// Collects the findings of one checker: at most kMaxFindings, each once.
class Findings {
public:
  explicit Findings(std::string checker) : checker(std::move(checker)) {}

  // Adds a finding; equal (stage, procedure, instruction, message) count once.
  void add(Finding finding);
  std::vector<Finding> take(); // with a last line for those left out
  size_t size() const { return list.size() + leftOut; }

private:
  std::string checker;
  std::vector<Finding> list;
  std::set<std::string> seen;
  size_t leftOut = 0;
};

// An access of one instruction to bytes [begin, end) of its rank's arena.
struct ByteAccess {
  uint64_t begin = 0, end = 0;
  bool read = false, write = false;
  bool slotted = false; // the buffer differs between slots
};

// Calls `visit` for each non-empty buffer of the instruction, in operand order,
// for an entry with the given slot. The buffers of one instruction may overlap.
void forEachAccess(const InstructionT &instruction, uint32_t slot,
                   const std::function<void(const ByteAccess &)> &visit);

// Buffers of slot 0 that the host reads after a step: outputs and results.
std::vector<const BufferRefT *> readByHost(const StageT &stage);

// The ranks that a collective joins, seen from one (representative) rank.
struct Group {
  std::vector<uint32_t> stages; // ascending; the issuing stage alone if it does not span stages
  uint64_t size = 1;            // ranks in the group
  bool spansStages = false;     // more than one stage
};
Group stageGroup(const ProgramT &program, const CollectiveT &collective, uint32_t stage);

// Collectives with equal axes, members and stream share one communicator: the
// k-th call of each member is the same collective.
using CommunicatorKey = std::tuple<std::vector<uint32_t>, std::vector<uint32_t>, uint32_t>;
CommunicatorKey communicatorOf(const InstructionT &instruction);
// For people: "dp", "ppxtp", "pp[0,3]".
std::string communicatorName(const ProgramT &program, const CollectiveT &collective);

// One execution of one instruction by the representative rank of a stage.
struct Node {
  const InstructionT *inst = nullptr;
  uint32_t stage = 0;
  uint32_t entry = 0; // row of the stage's table
  uint32_t index = 0; // of the instruction in its procedure
  uint32_t step = 0;
  uint32_t stream = 0;  // stage-wide stream number
  int64_t record = -1;  // of a wait: the record it waits for
  int64_t partner = -1; // of a send: its receive and the reverse
  // Of a message: it comes from a neighbour within the stage, where `partner` stands for what
  // the neighbour does. That orders nothing of one rank.
  bool inStage = false;
  int64_t join = -1;    // of a stage-spanning collective: index into Trace.joins
};

// What a send or receive says of its peer.
struct Direction {
  uint32_t axis = 0;
  int32_t delta = 0;
  uint32_t channel = 0;
  bool wrap = false;
};
Direction directionOf(const InstructionT &message);
// The stage that a send or receive of `stage` talks to; -1: beyond the first or
// last stage. Messages along another axis stay within the stage.
int64_t peerStage(const ProgramT &program, uint32_t stage, const Direction &direction);
// Equal keys: a message of one pair of ranks and one channel, seen from either end. Stages
// of both ends, then of a message that stays within its stage the axis and the sender's hop
// around it.
struct MessageKey {
  int64_t source = 0, destination = 0;
  uint32_t channel = 0;
  int64_t axis = -1, hop = 0;
  auto operator<=>(const MessageKey &) const = default;
};
MessageKey messageKey(const ProgramT &program, const Node &node);

// `steps` consecutive steps of all stages. Nodes of a stage are contiguous and
// in issue order: the order in which the host of a rank hands them to streams.
struct Trace {
  const ProgramT &program;
  std::vector<Node> nodes;
  std::vector<size_t> stageBegin; // stages + 1 entries
  std::vector<uint32_t> streamBase; // stages + 1 entries; global number of stream 0 of a stage
  std::vector<std::vector<uint32_t>> joins; // node of each member stage, ascending

  const EntryT &entryOf(const Node &node) const;
  const ProcedureT &procedureOf(const Node &node) const;
  bool runsPerMicroBatch(const Node &node) const; // else once a step
  // "stage 1, backward[12] launch 'gelu' for h.3.mlp, micro-batch 3".
  std::string describe(const Node &node) const;
  // A finding located at `node`.
  Finding at(const Node &node, std::string message, std::string fix = "") const;
};
Trace buildTrace(const ProgramT &program, unsigned steps);

// "launch 'name'", "all_reduce over dp", "send to pp + 1"...
std::string describeBody(const ProgramT &program, const InstructionT &instruction);

} // namespace llmc::planfile

#endif // LLMC_LIB_PLANFILE_CHECKWALK_H
