// Builds inputs for a kernel with the shapes of one of the plan's launches, and compares its
// results. Tested by test/cuda/run.py (compared, faults).
#ifndef LLMC_TOOLS_LLMC_GPU_CHECK_LAUNCH_H
#define LLMC_TOOLS_LLMC_GPU_CHECK_LAUNCH_H

#include "lib/planfile/Device.h"
#include "runtime/compute/ThreadTeam.h"

#include <cstddef>
#include <cstdint>
#include <new>
#include <optional>
#include <string>
#include <vector>

namespace llmc::gpucheck {

// Describes one operand: bytes [offset, offset + size) of region `region`.
struct Operand {
  unsigned region = 0;
  uint64_t offset = 0, size = 0;
  planfile::DType dtype = planfile::DType::F32;
  int64_t limit = 0; // of an index: rows of its table (planfile::DeviceBuffer)
  bool written = false;
  bool scratch = false; // begins with zeros; its contents afterwards are ignored
};

// Describes one launch.
struct Launch {
  const planfile::DeviceKernelT *kernel = nullptr;
  std::vector<Operand> operands;
  std::vector<int64_t> scalars;
  int64_t rows = 0;
  std::vector<uint64_t> regions; // by region: bytes; overlapping operands share a region

  // Returns the bytes of all operands, each as often as it is named.
  uint64_t bytes() const;
};

// Counts the guard bytes on either side of each region, which no kernel may touch.
inline constexpr uint64_t kGuardBytes = 256;

// Allocates memory aligned to a cache line, as an arena does for the CPU's kernels.
template <class T>
struct LineAllocator {
  using value_type = T;
  static constexpr std::align_val_t kLine{64};
  LineAllocator() = default;
  template <class U>
  LineAllocator(const LineAllocator<U> &) {}
  T *allocate(size_t count) { return static_cast<T *>(::operator new(count * sizeof(T), kLine)); }
  void deallocate(T *at, size_t) { ::operator delete(at, kLine); }
  bool operator==(const LineAllocator &) const { return true; }
};
// Holds the contents of regions with their guards: [kGuardBytes | region | kGuardBytes] each.
using Regions = std::vector<std::vector<std::byte, LineAllocator<std::byte>>>;

// Returns the plan's launch of `kernel` with the most rows; none if no launch has as many
// operands and scalars as the kernel takes.
std::optional<Launch> findLaunch(const planfile::ProgramT &program,
                                 const planfile::DeviceKernelT &kernel);

// Returns random contents for all regions. Floats are normally distributed if `positive` is
// off, else uniform in [0.05, 1), so that kernels that take roots of their inputs have finite
// results. Integers that index are mostly in range; a few are not, which is allowed. The same
// seed gives the same bytes, however many threads `team` has.
Regions drawRegions(const Launch &launch, uint64_t seed, bool positive,
                    runtime::ThreadTeam &team);

// Holds the difference of the results of two runs from the same contents.
struct Comparison {
  double worst = 0;       // largest relative error, as compare() defines it
  uint64_t compared = 0;  // elements that the launch writes
  uint64_t finite = 0;    // of those, finite floats and integers
  uint64_t neighbours = 0; // of those, one rounding of 16 bits off
  std::string problem;    // empty: equal within the tolerance
};

// Compares every element that the launch writes: integers and non-finite floats must be
// equal, finite ones within `tolerance` of max(|expected|, root mean square of the operand).
// Of results of 16 bits, a few may be the expected one's neighbour. All other bytes, guards too, must be as in `before`. Returns the first problem.
Comparison compare(const Launch &launch, const Regions &before, const Regions &expected,
                   const Regions &got, double tolerance, runtime::ThreadTeam &team);

} // namespace llmc::gpucheck

#endif // LLMC_TOOLS_LLMC_GPU_CHECK_LAUNCH_H
