// Decides that a mutant is equivalent to its plan: from the plan's text, never from numbers, and
// by other means than the static checkers that let the mutant pass. Tested by
// test/verify/EquivalenceTest.cpp.
#ifndef LLMC_LIB_VERIFY_MUTATION_EQUIVALENCE_H
#define LLMC_LIB_VERIFY_MUTATION_EQUIVALENCE_H

#include "lib/verify/mutation/Mutants.h"
#include "lib/verify/mutation/SymbolicRun.h"

#include <string>

namespace llmc::verify {

// Proves equivalence for all faults by one argument: runs both plans with symbols on every rank
// (SymbolicRun.h). They are equivalent if both runs end, every two accesses to a byte of which
// one writes are ordered in the closure of what orders instructions (OrderGraph.h), and all
// states and results are the same expressions. Other rules of the checkers do not matter.
class Equivalence {
public:
  explicit Equivalence(const planfile::ProgramT &program);

  // Returns the reason why `changed`, the plan after the mutant's change, is equivalent; empty if
  // that is not proved.
  std::string reason(const Mutant &mutant, const planfile::ProgramT &changed) const;
  // Returns why the plan itself cannot be compared with; empty if it can.
  const std::string &fault() const { return expected.fault; }

private:
  SymbolicRun expected;
  std::string frame; // the plan without its instructions and tables
};

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_MUTATION_EQUIVALENCE_H
