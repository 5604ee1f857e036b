// One kernel with the shapes of one of the plan's launches, and memory for it.
#ifndef LLMC_TOOLS_LLMC_GPU_CHECK_LAUNCH_H
#define LLMC_TOOLS_LLMC_GPU_CHECK_LAUNCH_H

#include "lib/planfile/Device.h"

#include <cstddef>
#include <cstdint>
#include <new>
#include <optional>
#include <string>
#include <vector>

namespace llmc::gpucheck {

// One operand: bytes [offset, offset + size) of region `region`.
struct Operand {
  unsigned region = 0;
  uint64_t offset = 0, size = 0;
  planfile::DType dtype = planfile::DType::F32;
  int64_t limit = 0; // as planfile::DeviceBuffer
  bool written = false;
  bool scratch = false; // begins with zeros, and holds nothing after
};

struct Launch {
  const planfile::DeviceKernelT *kernel = nullptr;
  std::vector<Operand> operands;
  std::vector<int64_t> scalars;
  int64_t rows = 0;
  std::vector<uint64_t> regions; // bytes of each; operands that overlap share one

  // Bytes that the operands hold, each as often as it is named.
  uint64_t bytes() const;
};

// Bytes around each region that no kernel may touch.
inline constexpr uint64_t kGuardBytes = 256;

// Memory as the CPU's kernels get it from an arena: aligned to a cache line.
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
// Contents of regions with their guards: [kGuardBytes | region | kGuardBytes] each.
using Regions = std::vector<std::vector<std::byte, LineAllocator<std::byte>>>;

// The largest of the plan's launches of `kernel`; nothing if none has as many operands
// and scalars as the kernel takes.
std::optional<Launch> findLaunch(const planfile::ProgramT &program,
                                 const planfile::DeviceKernelT &kernel);

// Numbers to run on. Floats are normal if `positive` is off, else from [0.05, 1): kernels
// that take roots of their inputs have results then. Integers that index are mostly in
// range; a few are not, which is allowed. The same seed gives the same bytes.
Regions drawRegions(const Launch &launch, uint64_t seed, bool positive);

// What two runs from the same contents left behind.
struct Comparison {
  double worst = 0;       // largest error over tolerance's scale
  uint64_t compared = 0;  // elements that the launch writes
  uint64_t finite = 0;    // of those, finite floats and integers
  std::string problem;    // empty: equal as far as can be asked
};

// Every element that the launch writes: integers and non-finite floats the same,
// finite ones within `tolerance` of max(|expected|, root of the mean square of the operand).
// All other bytes, guards too, must be as `before`.
Comparison compare(const Launch &launch, const Regions &before, const Regions &expected,
                   const Regions &got, double tolerance);

} // namespace llmc::gpucheck

#endif // LLMC_TOOLS_LLMC_GPU_CHECK_LAUNCH_H
