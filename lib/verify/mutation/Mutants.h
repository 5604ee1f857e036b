// Small faults of a plan, the way a compiler would make them: one instruction of a
// procedure x one operator, on all ranks of the stage and in every slot alike. A
// collective that joins stages is changed at all of them, so that the members
// still agree; an instruction that both backward procedures share, in both.
#ifndef LLMC_LIB_VERIFY_MUTATION_MUTANTS_H
#define LLMC_LIB_VERIFY_MUTATION_MUTANTS_H

#include "lib/planfile/Program.h"
#include "runtime/compute/Kernels.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace llmc::verify {

enum class Fault {
  Drop,     // a collective copies instead of communicating
  Group,    // a collective joins other ranks
  Kind,     // a collective sums, takes the maximum or broadcasts in place of another
  Wait,     // a wait is gone
  Scale,    // the result of a collective or of a sum over micro-batches is doubled
  Peer,     // a message goes to or comes from another stage, or on another channel
  Exchange, // two buffers of one instruction, or the slot of a lane of one table entry
  Overlap,  // a tensor that each slot has for itself has one place for all
  Invert,   // two neighbours of one stream change places
  Torn,     // the messages of a group, and of those that they meet, go one by one
  Late,     // a receive is posted after all else on its stream
  Pool,     // a chunk uses the slots of another one's pool
  Flat,     // a tensor of a flat buffer, or what ranks have of it, is off by one element
  Scratch,  // what a launch needs for itself alone changes places with another buffer of it
  Launch,   // a launch is gone
  Product,  // a matmul is gone
  Fill,     // a fill is gone
  Move,     // a feed, copy, send or receive is gone
  Operands, // two buffers of equal size that a launch reads change places
};
inline constexpr unsigned kFaults = 19;
std::string_view toString(Fault fault);

// One instruction; `instruction` is -1 for a row of the stage's table, whose number
// is then in `entry`.
struct PlanSite {
  uint32_t stage = 0, procedure = 0;
  int64_t instruction = -1;
  int64_t entry = -1;
};

struct Mutant {
  Fault fault;
  std::vector<PlanSite> sites; // all changed; the first stands for them
  std::string change;          // for people: "wait for event 3 removed"
  // What to change to; which of these matter depends on `fault`.
  std::vector<uint32_t> axes;                // Group
  std::vector<std::vector<uint32_t>> members; // Group: by site; may be empty
  uint32_t value = 0;              // Kind: 0 other reduction, 1 broadcast; Peer: 0 delta, 1
                                   // channel; Exchange, Scratch: first buffer or new slot;
                                   // Operands: first buffer; Pool: to which; Flat: 0 one more, 1 one less
  uint32_t other = 0;              // Exchange, Scratch, Operands: second buffer or lane; Overlap: buffer;
                                   // Pool: lane, or of all rows the pool; Flat: state, or
                                   // behind all states a group
  std::vector<int64_t> neighbours; // Invert: second instruction; Late: behind which; by site
};

// A plan whose kernels are extended by those that double a buffer, so that mutants
// of scale can be run. Kernels of `program` keep their numbers.
struct MutablePlan {
  planfile::ProgramT program;
  runtime::Kernels kernels;
};
MutablePlan makeMutable(const planfile::ProgramT &program, const runtime::Kernels &kernels);

// All mutants, in a fixed order. Changes that are none (a group of the same ranks,
// operands of an operation that commutes) are not listed.
std::vector<Mutant> listMutants(const planfile::ProgramT &program);

// Makes the change. `program` comes from makeMutable(). Stages' live_bytes are left
// as they are.
void apply(const Mutant &mutant, planfile::ProgramT &program);

// All buffers of an instruction, in the order of plan.fbs.
std::vector<planfile::BufferRefT *> buffersOf(planfile::InstructionT &instruction);

// Whether it is a message in one group with the one before it.
bool isGrouped(const planfile::InstructionT &instruction);

planfile::InstructionT &instructionAt(planfile::ProgramT &program, const PlanSite &site);
const planfile::InstructionT &instructionAt(const planfile::ProgramT &program,
                                            const PlanSite &site);

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_MUTATION_MUTANTS_H
