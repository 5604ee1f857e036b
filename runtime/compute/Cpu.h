// Which version of its kernels a program runs.
#ifndef LLMC_RUNTIME_COMPUTE_CPU_H
#define LLMC_RUNTIME_COMPUTE_CPU_H

#include "lib/support/Error.h"

#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace llmc::runtime {

// Names as in /proc/cpuinfo.
using CpuFeatures = std::set<std::string, std::less<>>;

// What this processor can do and the system lets programs use.
CpuFeatures readCpuFeatures();

// A version of the kernels and what it takes.
struct CpuVersion {
  std::string_view name;
  std::vector<std::string_view> needs;
};
// The best last.
const std::vector<CpuVersion> &cpuVersions();

// The best version that `features` allow, or `forced` (empty: not). An error names what
// the processor lacks.
support::Result<std::string_view> chooseCpu(const CpuFeatures &features, std::string_view forced);

} // namespace llmc::runtime

#endif // LLMC_RUNTIME_COMPUTE_CPU_H
