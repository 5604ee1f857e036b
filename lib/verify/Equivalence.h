// Why a mutant means the same as its plan - told from the plan, never from a run.
#ifndef LLMC_LIB_VERIFY_EQUIVALENCE_H
#define LLMC_LIB_VERIFY_EQUIVALENCE_H

#include "lib/verify/Mutants.h"

#include <string>

namespace llmc::verify {

// The reason, or empty if none is known. `program` is the plan before the change;
// every static checker must have passed the mutant.
std::string equivalence(const Mutant &mutant, const planfile::ProgramT &program);

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_EQUIVALENCE_H
