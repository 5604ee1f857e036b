// A plan run with symbols in place of numbers: what every byte holds is the expression that
// made it. Two plans whose states and results are the same expressions compute the same
// bits, whatever the kernels do.
#ifndef LLMC_LIB_VERIFY_MUTATION_SYMBOLICRUN_H
#define LLMC_LIB_VERIFY_MUTATION_SYMBOLICRUN_H

#include "lib/planfile/Program.h"

#include <cstdint>
#include <string>
#include <vector>

namespace llmc::verify {

struct SymbolicRun {
  // Why the run means nothing: it does not end, or two accesses to one byte of which one
  // writes are not ordered (OrderGraph.h); empty if every run in every order gives `values`.
  std::string fault;
  // After each step on each rank: a hash of the expression in each state, output and result.
  std::vector<uint64_t> values;
};

// Two steps of a plan that checkBounds() accepts, on every rank.
SymbolicRun runSymbolically(const planfile::ProgramT &program);

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_MUTATION_SYMBOLICRUN_H
