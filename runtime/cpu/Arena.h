// The memory of one rank: one mapping between two guard pages.
#ifndef LLMC_RUNTIME_CPU_ARENA_H
#define LLMC_RUNTIME_CPU_ARENA_H

#include "lib/support/Error.h"

#include <cstddef>
#include <cstdint>

namespace llmc::runtime {

class Arena {
public:
  // All bytes are zero at first. The end of the arena is the end of its last
  // page, so an overrun past that page faults.
  static support::Result<Arena> map(uint64_t bytes);
  Arena(Arena &&other) noexcept;
  Arena &operator=(Arena &&other) noexcept;
  ~Arena();

  std::byte *data() const { return data_; }
  uint64_t size() const { return size_; }

  // While closed, any access faults.
  void close() const;
  void open() const;
  // Only reads from here on; any write faults.
  void protect() const;

private:
  Arena() = default;
  std::byte *data_ = nullptr;
  uint64_t size_ = 0;   // as asked for
  uint64_t mapped_ = 0; // whole pages, without the guards
};

// Bytes that this machine could give out now (MemAvailable); 0 if unknown.
uint64_t availableMemory();

} // namespace llmc::runtime

#endif // LLMC_RUNTIME_CPU_ARENA_H
