#include "runtime/compute/Cpu.h"

#include <cpuid.h>

using namespace llmc;
using namespace llmc::runtime;
using support::error;

namespace {

enum Register { kEax, kEbx, kEcx, kEdx };

struct Bit {
  unsigned leaf;
  Register reg;
  unsigned bit;
  const char *name;
  uint64_t state; // bits of XCR0: registers that the system must save
};
constexpr uint64_t kNone = 0, kYmm = 0x6, kZmm = 0xe6;
constexpr Bit kBits[] = {
    {1, kEcx, 12, "fma", kYmm},
    {1, kEcx, 22, "movbe", kNone},
    {1, kEcx, 28, "avx", kYmm},
    {1, kEcx, 29, "f16c", kYmm},
    {7, kEbx, 3, "bmi1", kNone},
    {7, kEbx, 5, "avx2", kYmm},
    {7, kEbx, 8, "bmi2", kNone},
    {7, kEbx, 16, "avx512f", kZmm},
    {7, kEbx, 17, "avx512dq", kZmm},
    {7, kEbx, 28, "avx512cd", kZmm},
    {7, kEbx, 30, "avx512bw", kZmm},
    {7, kEbx, 31, "avx512vl", kZmm},
    {0x80000001, kEcx, 5, "lzcnt", kNone},
};

// Returns XCR0, or 0 if the processor has none.
uint64_t savedState() {
  unsigned r[4] = {};
  if (!__get_cpuid_count(1, 0, &r[0], &r[1], &r[2], &r[3]) || !(r[kEcx] >> 27 & 1))
    return 0;
  unsigned low, high;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return uint64_t(high) << 32 | low;
}

} // namespace

CpuFeatures runtime::readCpuFeatures() {
  CpuFeatures features;
  uint64_t saved = savedState();
  for (const Bit &bit : kBits) {
    unsigned r[4] = {};
    if (__get_cpuid_count(bit.leaf, 0, &r[0], &r[1], &r[2], &r[3]) && r[bit.reg] >> bit.bit & 1 &&
        (saved & bit.state) == bit.state)
      features.insert(bit.name);
  }
  return features;
}

const std::vector<CpuVersion> &runtime::cpuVersions() {
  // The versions are x86-64-v3 and x86-64-v4.
  static const std::vector<CpuVersion> versions = {
      {"avx2", {"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "lzcnt", "movbe"}},
      {"avx512",
       {"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "lzcnt", "movbe", "avx512f", "avx512bw",
        "avx512cd", "avx512dq", "avx512vl"}}};
  return versions;
}

support::Result<std::string_view> runtime::chooseCpu(const CpuFeatures &features,
                                                     std::string_view forced) {
  std::string_view best;
  std::string lacks; // of the first version that does not run
  for (const CpuVersion &version : cpuVersions()) {
    if (!forced.empty() && version.name != forced)
      continue;
    std::string missing;
    for (std::string_view need : version.needs)
      if (!features.contains(need))
        missing += (missing.empty() ? "" : ", ") + std::string(need);
    if (missing.empty())
      best = version.name;
    else if (lacks.empty())
      lacks = missing;
  }
  if (!best.empty())
    return best;
  if (lacks.empty())
    return error("'", forced, "' is not one of avx2, avx512");
  return error("this processor cannot run the ", forced.empty() ? "avx2" : forced,
               " kernels: it lacks ", lacks);
}
