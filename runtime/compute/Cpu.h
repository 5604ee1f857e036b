// Chooses which version of its kernels a program runs, by the features of this processor. The
// test is test/runtime/CpuTest.cpp.
#ifndef LLMC_RUNTIME_COMPUTE_CPU_H
#define LLMC_RUNTIME_COMPUTE_CPU_H

#include "lib/support/Error.h"

#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace llmc::runtime {

// Holds names of processor features, spelled as in /proc/cpuinfo.
using CpuFeatures = std::set<std::string, std::less<>>;

// Returns the features that this processor has and whose registers the system saves; only
// features that some version of the kernels needs are looked up.
CpuFeatures readCpuFeatures();

// Describes a version of the kernels and the features that it needs.
struct CpuVersion {
  std::string_view name;
  std::vector<std::string_view> needs;
};
// Returns all versions, the best last.
const std::vector<CpuVersion> &cpuVersions();

// Returns the name of the best version that `features` allow, or `forced` unless that is
// empty. Fails if `forced` names no version, or, naming the missing features, if the
// processor cannot run it.
support::Result<std::string_view> chooseCpu(const CpuFeatures &features, std::string_view forced);

} // namespace llmc::runtime

#endif // LLMC_RUNTIME_COMPUTE_CPU_H
