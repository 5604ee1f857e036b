// Memory for the operands of one launch, where they share bytes as in the plan.
#ifndef LLMC_LIB_VERIFY_KERNELS_OPERANDMEMORY_H
#define LLMC_LIB_VERIFY_KERNELS_OPERANDMEMORY_H

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace llmc::verify {

// Bytes that are kept from one launch to the next; pages are real once they are touched.
class Arena {
public:
  Arena() = default;
  ~Arena();
  Arena(const Arena &) = delete;
  Arena &operator=(const Arena &) = delete;
  std::byte *reserve(size_t bytes);

private:
  std::byte *start = nullptr;
  size_t size = 0;
};

// Where an operand lies in the plan.
struct Extent {
  uint64_t offset, size, bytesOfElement;
  bool written, read;
};

class OperandMemory {
public:
  // Operands that share bytes do so here; each begins in its cache line where it does in the
  // plan. Between those that do not there is a border.
  OperandMemory(Arena &arena, std::vector<Extent> extents);

  std::byte *operator[](size_t i) const { return places[i]; }
  static uint64_t bytesFor(const std::vector<Extent> &extents);

  // Fills borders, and what is written without being read before, with bytes that no kernel
  // leaves behind.
  void poison();
  // Whether an operand was only written, so that poison() filled it.
  bool isPoisoned(size_t i) const { return poisoned[i]; }
  // First element of a poisoned operand that still is; -1: none.
  int64_t firstUnwritten(size_t i) const;
  // Whether a border was written.
  bool isBorderBroken() const;

private:
  struct Border {
    std::byte *begin;
    size_t size;
  };
  std::vector<Extent> extents;
  std::vector<std::byte *> places;
  std::vector<bool> poisoned;
  std::vector<Border> borders;
};

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_KERNELS_OPERANDMEMORY_H
