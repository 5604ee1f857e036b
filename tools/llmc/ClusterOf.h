// Finds the cluster that a command is told of. Tested by test/numerics/refusals.py, traces.py.
#ifndef LLMC_TOOLS_LLMC_CLUSTEROF_H
#define LLMC_TOOLS_LLMC_CLUSTEROF_H

#include "lib/cost/Kernels.h"
#include "tools/llmc/CommandLine.h"

#include <optional>

namespace llmc {

// Returns the machine of --gpu or --cluster for programs that are compiled, with the newest kernel of attention; nullopt after
// printing what is wrong.
std::optional<cost::Machine> machineOfPrograms(const CommandLine &line);

} // namespace llmc

#endif // LLMC_TOOLS_LLMC_CLUSTEROF_H
