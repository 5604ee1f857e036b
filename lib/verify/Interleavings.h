// A plan that holds together gives the same bits whoever is fast.
#ifndef LLMC_LIB_VERIFY_INTERLEAVINGS_H
#define LLMC_LIB_VERIFY_INTERLEAVINGS_H

#include "lib/planfile/Program.h"
#include "lib/verify/subject/Report.h"
#include "lib/verify/steps/Training.h"
#include "runtime/compute/Kernels.h"

#include <functional>

namespace llmc::verify {

// Runs the first two steps of `trial` in order, then `count` times in orders
// drawn from seed, seed + 1, ... (runtime/cpu/Adversary.h). Adds
//   interleave:bits    runs that did not end, or ended with other bits in any
//                      state or output of any rank after any step: limit 0;
//   interleave:poison  runs that read poison, or broke the plan's order of two
//                      accesses to one byte: limit 0.
// The note tells the first failure. Calls `ranOne` after each order. The plan must pass
// checkBounds().
void checkInterleavings(const planfile::ProgramT &program, const runtime::Kernels &kernels,
                        const Trial &trial, unsigned count, uint64_t seed, Report &report,
                        const std::function<void()> &ranOne = [] {});

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_INTERLEAVINGS_H
