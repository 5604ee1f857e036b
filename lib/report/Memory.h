// What fills a rank's arena, found by walking the plan.
#ifndef LLMC_LIB_REPORT_MEMORY_H
#define LLMC_LIB_REPORT_MEMORY_H

#include "lib/report/Walk.h"

#include <map>
#include <utility>

namespace llmc::report {

// Bytes of one rank's arena by kind; every byte of the arena counts once:
//   weights      parameters and masters
//   gradients    accumulators, the step's sums too
//   optimizer    moments
//   activations  what differs between slots: kept from a forward to its backward
//   outputs      what the host reads after the step
//   constants    written at the step's beginning or by the host, then only read
//   workspace    all else that an instruction touches
//   gaps         bytes that nothing touches (alignment)
using MemoryByKind = std::vector<std::pair<std::string, uint64_t>>;
MemoryByKind memoryOf(const planfile::ProgramT &program, uint32_t stage);

// Bytes of one micro-batch that the forward pass writes at `site` and the backward
// pass reads.
uint64_t savedBytes(const planfile::ProgramT &program, const Site &site);

} // namespace llmc::report

#endif // LLMC_LIB_REPORT_MEMORY_H
