// Maps the memory of one rank: one mapping between two guard pages, or a view of such a mapping. The test is
// test/runtime/ExecutorTest.cpp (Isolation, ArenasLargerThanMemoryAreRefusedWithBothNumbers).
#ifndef LLMC_RUNTIME_CPU_ARENA_H
#define LLMC_RUNTIME_CPU_ARENA_H

#include "lib/support/Error.h"

#include <cstddef>
#include <cstdint>

namespace llmc::runtime {

// Owns the mapping.
class Arena {
public:
  // Maps `bytes` zero bytes between guard pages; fails if the system refuses. The arena is
  // extended to the end of its last page, so an overrun past that page faults. Addresses up to
  // `reserved` bytes are kept free behind it for view().
  static support::Result<Arena> map(uint64_t bytes, uint64_t reserved = 0);
  // Returns an arena of `bytes` over the bytes of this one, which must outlive it; what it has beyond
  // them, up to what map() reserved, is mapped as zeros. Fails if the system refuses.
  support::Result<Arena> view(uint64_t bytes) const;
  Arena(Arena &&other) noexcept;
  Arena &operator=(Arena &&other) noexcept;
  ~Arena();

  std::byte *data() const { return data_; }
  uint64_t size() const { return size_; }

  // Makes any access fault, until open() is called.
  void close() const;
  void open() const;
  // Makes any write fault from here on; reads remain allowed.
  void protect() const;

private:
  Arena() = default;
  std::byte *data_ = nullptr;
  uint64_t size_ = 0;   // as asked for
  uint64_t mapped_ = 0; // whole pages, without the guards
  uint64_t reserved_ = 0; // whole pages from data_ to the guard behind it
  bool owned_ = true;     // false: another arena's mapping
};

// Returns the bytes that this machine could give out now (MemAvailable); 0 if unknown.
uint64_t availableMemory();
// Returns the most bytes that this process has had in memory (VmHWM); 0 if unknown.
uint64_t peakMemory();

} // namespace llmc::runtime

#endif // LLMC_RUNTIME_CPU_ARENA_H
