// Runs a plan with symbols in place of numbers: each byte holds the expression that computed it.
// Two plans whose states and results are the same expressions compute the same bits, whatever the
// kernels compute. Tested by test/verify/EquivalenceTest.cpp.
#ifndef LLMC_LIB_VERIFY_MUTATION_SYMBOLICRUN_H
#define LLMC_LIB_VERIFY_MUTATION_SYMBOLICRUN_H

#include "lib/planfile/Program.h"

#include <cstdint>
#include <string>
#include <vector>

namespace llmc::verify {

// Holds the outcome of a symbolic run.
struct SymbolicRun {
  // Explains why the run has no meaning: it does not end, or two accesses to one byte of which
  // one writes are not ordered (OrderGraph.h); empty if every order gives `values`.
  std::string fault;
  // Lists, after each step on each rank, a hash of the expression in each state, output and
  // result.
  std::vector<uint64_t> values;
};

// Runs two steps of a plan that checkBounds() accepts, on every rank.
SymbolicRun runSymbolically(const planfile::ProgramT &program);

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_MUTATION_SYMBOLICRUN_H
