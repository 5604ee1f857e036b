// States what a program carries to run a step again whose rows found no room at the ranks of their experts: a
// second plan of the same step, with room for all rows, and its kernels. Tests: test/numerics/experts.py.
#ifndef LLMC_LIB_PLANFILE_RETRY_H
#define LLMC_LIB_PLANFILE_RETRY_H

#include "lib/planfile/Payload.h"
#include "lib/planfile/Program.h"
#include "lib/support/Error.h"

#include <memory>
#include <string_view>

namespace llmc::planfile {

// Names the sections of the second plan and of its kernels (Payload.h).
inline constexpr std::string_view kRetryPlanSection = "retry-plan";
inline constexpr std::string_view kRetryKernelsPrefix = "retry-kernels-";

// Checks that `retry` may run over the arenas of `first`: the same mesh, inputs, rows and routers, and every
// state that outlives a step of the same layout at the same place. The error names what differs.
support::Status checkRetry(const ProgramT &first, const ProgramT &retry);

// Reads the second plan of an executable; null if it has none. Fails as readProgram() does.
support::Result<std::unique_ptr<ProgramT>> readRetry(const Payload &payload);

} // namespace llmc::planfile

#endif // LLMC_LIB_PLANFILE_RETRY_H
