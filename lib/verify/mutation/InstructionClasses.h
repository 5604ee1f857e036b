// Groups instructions of a plan that a mutation must change together: the same instruction in
// both backward procedures, and the calls of one collective at all stages that it joins. Tested by
// test/verify/MutantsTest.cpp and test/verify/ChunkMutantsTest.cpp.
#ifndef LLMC_LIB_VERIFY_MUTATION_INSTRUCTIONCLASSES_H
#define LLMC_LIB_VERIFY_MUTATION_INSTRUCTIONCLASSES_H

#include "lib/verify/mutation/Mutants.h"

#include <map>
#include <vector>

namespace llmc::verify {

// Holds the equivalence classes of instructions.
class InstructionClasses {
public:
  explicit InstructionClasses(const planfile::ProgramT &program);

  // Returns the class of an instruction; all() returns the members of each class.
  uint32_t of(uint32_t stage, uint32_t procedure, uint32_t instruction) const {
    return family_[first_[stage][procedure] + instruction];
  }
  const std::vector<std::vector<PlanSite>> &all() const { return members_; }

private:
  void joinLastMicroBatch(const planfile::ProgramT &program);
  void joinMembers(const planfile::ProgramT &program);
  uint32_t root(uint32_t id);
  void unite(uint32_t a, uint32_t b);

  std::vector<std::vector<uint32_t>> first_; // number of a procedure's first instruction
  std::vector<PlanSite> sites_;
  std::vector<uint32_t> family_; // class by instruction; parent in the union-find while joining
  std::vector<std::vector<PlanSite>> members_;
};

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_MUTATION_INSTRUCTIONCLASSES_H
