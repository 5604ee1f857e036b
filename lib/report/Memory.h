// Computes from the plan what fills a rank's arena. Tests: test/planfile/ReportTest.cpp,
// test/planfile/ExplainTest.cpp.
#ifndef LLMC_LIB_REPORT_MEMORY_H
#define LLMC_LIB_REPORT_MEMORY_H

#include "lib/report/Traffic.h"

#include <map>
#include <utility>

namespace llmc::report {

// Lists the kinds, and maps each to its bytes in one rank's arena. Every byte counts once: states come first,
// then outputs, host scalars, activations, and the rest.
//   weights      parameters
//   masters      float32 copies of parameters in a low type
//   gradients    accumulators, the step's sums too
//   optimizer    moments
//   activations  what differs between slots: kept from a forward to its backward
//   outputs      what the host reads after the step
//   gathered     most of the weights that a forward or backward has gathered at once
//   communication a rank's parts on their way to or from other ranks, gathers' and scatters'
//   constants    written at the step's beginning or by the host, then only read
//   workspace    all else that an instruction accesses
//   gaps         bytes that nothing accesses (alignment)
const std::vector<const char *> &kindsOfMemory();
using MemoryByKind = std::vector<std::pair<std::string, uint64_t>>;
MemoryByKind memoryOf(const planfile::ProgramT &program, uint32_t stage);

// Counts the bytes of one micro-batch that the forward pass writes at `site` and the backward
// pass reads; 0 for a site outside of a forward.
uint64_t savedBytes(const planfile::ProgramT &program, const Site &site);

} // namespace llmc::report

#endif // LLMC_LIB_REPORT_MEMORY_H
