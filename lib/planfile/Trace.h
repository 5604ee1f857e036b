// Expands the plan's instructions by the tables of all stages, for the checkers and reports: the
// bytes that each accesses, and which sends, receives and collectives meet. Tests:
// test/planfile/CheckRandomTest.cpp, CheckPlanTest.cpp, ChunkTest.cpp.
#ifndef LLMC_LIB_PLANFILE_TRACE_H
#define LLMC_LIB_PLANFILE_TRACE_H

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
  std::vector<Finding> take(); // the last one counts those left out
  size_t size() const { return list.size() + leftOut; }

private:
  std::string checker;
  std::vector<Finding> list;
  std::set<std::string> seen;
  size_t leftOut = 0;
};

// Returns whether a procedure is the backward of the last micro-batch, or the part of it that computes
// gradients of weights: each runs once a step.
constexpr bool isLast(ProcedureKind kind) {
  return kind == ProcedureKind::BackwardLast || kind == ProcedureKind::WeightLast;
}

// Describes an access of one instruction to bytes [begin, end) of its rank's arena.
struct ByteAccess {
  uint64_t begin = 0, end = 0;
  bool read = false, write = false;
  bool slotted = false; // the buffer differs between slots
  uint32_t lane = 0;    // whose slot it uses
  uint32_t tensor = 0;  // as in BufferRef
};

// Calls `visit` for each non-empty buffer of the instruction, in operand order, for an entry of
// the table or the same slot in every lane. The buffers of one instruction may overlap.
void forEachAccess(const InstructionT &instruction, const EntryT &entry,
                   const std::function<void(const ByteAccess &)> &visit);
void forEachAccess(const InstructionT &instruction, uint32_t slot,
                   const std::function<void(const ByteAccess &)> &visit);

// Returns the buffers that the host reads after a step, in slot 0: outputs and results.
std::vector<const BufferRefT *> readByHost(const StageT &stage);

// Describes the device group of a collective, seen from one (representative) rank.
struct Group {
  std::vector<uint32_t> stages; // ascending; the issuing stage alone if it does not span stages
  uint64_t size = 1;            // ranks in the group
  bool spansStages = false;     // more than one stage
};
Group stageGroup(const ProgramT &program, const CollectiveT &collective, uint32_t stage);

// Identifies a communicator by axes, members and stream: the k-th call of each member is the same
// collective.
using CommunicatorKey = std::tuple<std::vector<uint32_t>, std::vector<uint32_t>, uint32_t>;
CommunicatorKey communicatorOf(const InstructionT &instruction);
// Returns the name of a communicator for messages: "dp", "ppxtp", "pp[0,3]".
std::string communicatorName(const ProgramT &program, const CollectiveT &collective);

// Returns the stage at the other end of a send or receive of `stage`; -1 if it is beyond the
// first or last stage. Messages along another axis stay within the stage.
int64_t peerStage(const ProgramT &program, uint32_t stage, const Message &message);

// Represents one execution of one instruction by the representative rank of a stage.
struct Node {
  const InstructionT *inst = nullptr;
  Body type = Body::NONE; // of the instruction
  uint32_t stage = 0;
  uint32_t entry = 0; // row of the stage's table
  uint32_t index = 0; // of the instruction in its procedure
  uint32_t step = 0;
  uint32_t stream = 0;  // number over all stages: Trace.streamBase + its own
  int64_t record = -1;  // of a wait: the record it waits for
  int64_t partner = -1; // of a send: its receive and the reverse
  // Marks a message to or from a neighbour within the stage; then `partner` stands for the
  // neighbour's instruction and orders nothing on this rank.
  bool inStage = false;
  int64_t join = -1;    // of a stage-spanning collective: index into Trace.joins
  int64_t group = -1;   // of a message: first node of its group
};

// Holds all nodes of a trace. A step of many stages and micro-batches has millions, so each is
// stored in eight bytes and assembled on access.
class Nodes {
public:
  size_t size() const { return rowOf.size(); }
  Node operator[](size_t n) const;
  // Returns whether both come from the same execution of an entry.
  bool sameRow(size_t a, size_t b) const { return rowOf[a] == rowOf[b]; }

  class Iterator {
  public:
    Iterator(const Nodes &nodes, size_t at) : nodes(&nodes), at(at) {}
    Node operator*() const { return (*nodes)[at]; }
    Iterator &operator++() { return ++at, *this; }
    bool operator!=(const Iterator &other) const { return at != other.at; }

  private:
    const Nodes *nodes;
    size_t at;
  };
  Iterator begin() const { return {*this, 0}; }
  Iterator end() const { return {*this, size()}; }

  // Begins a stage; its first stream has the given number.
  void beginStage(const ProgramT &program, uint32_t stageIndex, uint32_t streamBase);
  // Appends one execution of an entry of that stage; its nodes have no links yet.
  void append(uint32_t entry, uint32_t step);
  // Sets the record of a wait, the partner of a message, or the join of a collective.
  void link(size_t n, size_t to) { links[n] = static_cast<uint32_t>(to); }

private:
  // Holds what all executions of an instruction share, in contiguous storage.
  struct InstructionInfo {
    const InstructionT *inst;
    uint32_t stream;
    uint32_t group; // of a message: the first instruction of its group
    Body type;
    bool inStage; // of a message: as in Node
  };
  struct Row {
    const InstructionInfo *places; // of the procedure
    uint32_t begin, stage, entry, step;
  };
  const StageT *stage = nullptr;
  uint32_t stageIndex = 0;
  std::vector<std::vector<std::vector<InstructionInfo>>> places; // of each stage and procedure
  std::vector<Row> rows;
  std::vector<uint32_t> rowOf, links; // of each node
};

// Identifies a channel between two ranks: keys are equal for messages of the same pair of ranks
// and channel, at either end. `source` and `destination` are stages; for a message that stays
// within its stage, `axis` and the sender's `hop` along it tell the ranks apart.
struct MessageKey {
  int64_t source = 0, destination = 0;
  uint32_t channel = 0;
  int64_t axis = -1, hop = 0;
  auto operator<=>(const MessageKey &) const = default;
};
MessageKey messageKey(const ProgramT &program, const Node &node);

// Holds `steps` consecutive steps of all stages. Nodes of a stage are contiguous and in issue
// order: the order in which the host of a rank enqueues them on streams.
struct Trace {
  const ProgramT &program;
  Nodes nodes;
  std::vector<size_t> stageBegin; // stages + 1 entries
  std::vector<uint32_t> streamBase; // stages + 1 entries; global number of stream 0 of a stage
  std::vector<std::vector<uint32_t>> joins; // node of each member stage, ascending

  const EntryT &entryOf(const Node &node) const;
  const ProcedureT &procedureOf(const Node &node) const;
  uint32_t microBatchOf(const Node &node) const; // of its lane
  bool runsPerMicroBatch(const Node &node) const; // else once per step
  // Describes a node: "stage 1, backward[12] launch 'gelu' for h.3.mlp, micro-batch 3".
  std::string describe(const Node &node) const;
  // Returns a finding located at `node`.
  Finding at(const Node &node, std::string message, std::string fix = "") const;
};
// Builds the trace and links waits, messages and collectives. With `unrolled` the tables already
// hold the steps, one after the other.
Trace buildTrace(const ProgramT &program, unsigned steps, bool unrolled = false);

// Describes an instruction: "launch 'name'", "all_reduce over dp", "send to pp + 1", ...
std::string describeBody(const ProgramT &program, const InstructionT &instruction);

} // namespace llmc::planfile

#endif // LLMC_LIB_PLANFILE_TRACE_H
