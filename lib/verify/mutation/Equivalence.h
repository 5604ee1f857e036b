// Why a mutant means the same as its plan - told from the plan, never from numbers, and by
// other means than the static checkers that let the mutant pass.
#ifndef LLMC_LIB_VERIFY_MUTATION_EQUIVALENCE_H
#define LLMC_LIB_VERIFY_MUTATION_EQUIVALENCE_H

#include "lib/verify/mutation/Mutants.h"
#include "lib/verify/mutation/SymbolicRun.h"

#include <string>

namespace llmc::verify {

// One argument for all faults: both plans are run with symbols on every rank (SymbolicRun.h).
// They are equivalent if each run ends, every two accesses to a byte of which one writes are
// ordered in the closure of what orders instructions (OrderGraph.h), and all states and
// results are the same expressions. What a checker forbids for other reasons is no matter.
class Equivalence {
public:
  explicit Equivalence(const planfile::ProgramT &program);

  // The reason why `changed`, which is the plan after the mutant's change, is equivalent; or
  // empty if it is not shown to be.
  std::string reason(const Mutant &mutant, const planfile::ProgramT &changed) const;
  // Why the plan itself cannot be compared with; empty if it can.
  const std::string &fault() const { return expected.fault; }

private:
  SymbolicRun expected;
  std::string frame; // of the plan
};

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_MUTATION_EQUIVALENCE_H
