// Lists small faults of a plan as a compiler might make them: one operator applied to one
// instruction of a procedure, on all ranks of the stage and in every slot. A collective that
// joins stages is changed at all of them, so that the members still agree; an instruction that
// both backward procedures share, in both. Tested by test/verify/MutantsTest.cpp and
// test/verify/ChunkMutantsTest.cpp.
#ifndef LLMC_LIB_VERIFY_MUTATION_MUTANTS_H
#define LLMC_LIB_VERIFY_MUTATION_MUTANTS_H

#include "lib/planfile/Program.h"
#include "runtime/compute/Kernels.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace llmc::verify {

// Enumerates the mutation operators.
enum class Fault {
  Drop,     // a collective copies instead of communicating
  Group,    // a collective joins other ranks
  Kind,     // a collective sums, takes the maximum or broadcasts in place of another
  Wait,     // a wait is removed
  Scale,    // the result of a collective or of a sum over micro-batches is doubled
  Peer,     // a message goes to or comes from another stage, or on another channel
  Exchange, // two buffers of one instruction, or the slot of a lane of one table entry
  Overlap,  // a tensor with one copy a slot has one allocation for all
  Invert,   // two neighbours of one stream are exchanged
  Torn,     // the messages of a group, and of those that they meet, run one by one
  Late,     // a receive is posted after all else on its stream
  Pool,     // a chunk uses the slots of another one's pool
  Flat,     // a tensor of a flat buffer, or the ranks' range of it, is off by one element
  Scratch,  // the scratch buffer of a launch is exchanged with another of its buffers
  Launch,   // a launch is removed
  Product,  // a matmul is removed
  Fill,     // a fill is removed
  Move,     // a feed, copy, send or receive is removed
  Operands, // two buffers of equal size that a launch reads are exchanged
};
inline constexpr unsigned kFaults = 19;
std::string_view toString(Fault fault);

// Locates one instruction; `instruction` is -1 for a row of the stage's table, whose number is
// then in `entry`.
struct PlanSite {
  uint32_t stage = 0, procedure = 0;
  int64_t instruction = -1;
  int64_t entry = -1;
};

// Describes one fault and the places where it is made.
struct Mutant {
  Fault fault;
  std::vector<PlanSite> sites; // all are changed; reports name the first
  std::string change;          // description: "wait for event 3 removed"
  // Holds the new values; `fault` determines which of these fields matter.
  std::vector<uint32_t> axes;                // Group
  std::vector<std::vector<uint32_t>> members; // Group: by site; may be empty
  // Selects, for Kind: 0 other reduction, 1 broadcast; Peer: 0 delta, 1 channel; Exchange,
  // Scratch: first buffer or new slot; Operands: first buffer; Pool: new pool; Flat: 0 one more,
  // 1 one less.
  uint32_t value = 0;
  // Selects, for Exchange, Scratch, Operands: second buffer or lane; Overlap: buffer; Pool: lane,
  // or for all rows the old pool; Flat: state, or, from the number of states on, a group.
  uint32_t other = 0;
  std::vector<int64_t> neighbours; // Invert: second instruction; Late: behind which; by site
};

// Holds a plan whose kernels are extended by those that double a buffer, so that mutants of Scale
// can be run. Kernels of `program` keep their numbers.
struct MutablePlan {
  planfile::ProgramT program;
  runtime::Kernels kernels;
};
MutablePlan makeMutable(const planfile::ProgramT &program, const runtime::Kernels &kernels);

// Returns all mutants, in a fixed order. Omits changes that are none (a group of the same ranks,
// operands of a commutative operation).
std::vector<Mutant> listMutants(const planfile::ProgramT &program);

// Makes the change in `program`, which comes from makeMutable(). Leaves the stages' live_bytes as
// they are.
void apply(const Mutant &mutant, planfile::ProgramT &program);

// Returns all buffers of an instruction, in the order of plan.fbs.
std::vector<planfile::BufferRefT *> buffersOf(planfile::InstructionT &instruction);

// Returns whether it is a message in one group with the one before it.
bool isGrouped(const planfile::InstructionT &instruction);

planfile::InstructionT &instructionAt(planfile::ProgramT &program, const PlanSite &site);
const planfile::InstructionT &instructionAt(const planfile::ProgramT &program,
                                            const PlanSite &site);

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_MUTATION_MUTANTS_H
