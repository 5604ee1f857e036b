// Checks that a plan computes the same bits however its ranks and streams interleave. Tested by
// test/verify/InterleavingsTest.cpp.
#ifndef LLMC_LIB_VERIFY_INTERLEAVINGS_H
#define LLMC_LIB_VERIFY_INTERLEAVINGS_H

#include "lib/planfile/Program.h"
#include "lib/verify/subject/Report.h"
#include "lib/verify/steps/Training.h"
#include "runtime/compute/Kernels.h"

#include <functional>

namespace llmc::verify {

// Runs the first two steps of `trial` in issue order, then `count` times in orders drawn from
// seed, seed + 1, ... (runtime/cpu/Adversary.h). Adds
//   interleave:bits    runs that did not end, or ended with other bits in a state or
//                      output of any rank after any step: limit 0;
//   interleave:poison  runs that read poison, or violated the plan's order of two
//                      accesses to one byte: limit 0.
// The note describes the first failure. Calls `ranOne` after each drawn order. Requires a plan
// that passes checkBounds().
void checkInterleavings(const planfile::ProgramT &program, const runtime::Kernels &kernels,
                        const Trial &trial, unsigned count, uint64_t seed, Report &report,
                        const std::function<void()> &ranOne = [] {});

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_INTERLEAVINGS_H
