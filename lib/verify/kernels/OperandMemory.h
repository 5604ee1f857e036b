// Lays out memory for the operands of one launch, which alias as in the plan. Tested by
// test/verify/kernels/ShapesTest.cpp (FaultOfMachineCode).
#ifndef LLMC_LIB_VERIFY_KERNELS_OPERANDMEMORY_H
#define LLMC_LIB_VERIFY_KERNELS_OPERANDMEMORY_H

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace llmc::verify {

// Owns memory that is reused from one launch to the next; pages are committed when touched.
class ScratchMapping {
public:
  ScratchMapping() = default;
  ~ScratchMapping();
  ScratchMapping(const ScratchMapping &) = delete;
  ScratchMapping &operator=(const ScratchMapping &) = delete;
  // Returns at least `bytes` bytes; earlier pointers and contents may become invalid. Throws
  // std::bad_alloc.
  std::byte *reserve(size_t bytes);
  // Gives the memory back.
  void release();

private:
  std::byte *start = nullptr;
  size_t size = 0;
};

// Describes an operand's bytes in the plan and how the launch accesses them.
struct OperandBytes {
  uint64_t offset, size, bytesOfElement;
  bool written, read;
  // Gives the bytes of it that are run, as [begin, end); empty: all. Memory is taken for no others.
  std::vector<std::pair<uint64_t, uint64_t>> used = {};
};

// Places the operands of one launch in an Arena and detects writes outside them.
class OperandMemory {
public:
  // Places operands that share bytes in the plan such that they do here; each keeps its offset in
  // a cache line. Guard bytes separate those that do not overlap.
  OperandMemory(ScratchMapping &arena, std::vector<OperandBytes> extents);

  std::byte *operator[](size_t i) const { return places[i]; }
  // Returns the bytes of an operand that are run.
  std::vector<std::pair<uint64_t, uint64_t>> usedOf(size_t i) const;
  // Returns an upper bound of the bytes that `extents` take, guard bytes included.
  static uint64_t bytesFor(const std::vector<OperandBytes> &extents);

  // Fills guard bytes, and what is run of operands that are written without being read before, with a pattern
  // that no kernel leaves behind.
  void poison();
  // Returns whether an operand is only written, so that poison() fills it.
  bool isPoisoned(size_t i) const { return poisoned[i]; }
  // Returns the first element of a poisoned operand that still has the pattern; -1 if none.
  int64_t firstUnwritten(size_t i) const;
  // Returns whether a guard byte was overwritten.
  bool isGuardOverwritten() const;

private:
  struct Guard {
    std::byte *begin;
    size_t size;
  };
  std::vector<OperandBytes> extents;
  std::vector<std::byte *> places;
  std::vector<bool> poisoned;
  std::vector<Guard> guards;
};

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_KERNELS_OPERANDMEMORY_H
