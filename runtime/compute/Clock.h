// Reads the clock with which the runtime measures. The test is test/numerics/traces.py
// (well_formed).
#ifndef LLMC_RUNTIME_COMPUTE_CLOCK_H
#define LLMC_RUNTIME_COMPUTE_CLOCK_H

#include <cstdint>
#include <ctime>

namespace llmc::runtime {

// Returns the nanoseconds of a monotonic clock.
inline uint64_t nanoseconds() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return uint64_t(t.tv_sec) * 1000000000 + uint64_t(t.tv_nsec);
}

} // namespace llmc::runtime

#endif // LLMC_RUNTIME_COMPUTE_CLOCK_H
