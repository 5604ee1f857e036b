// Reduces the operands of collectives. Sums add in the order of the group; those of 16-bit
// floats are accumulated in float32 and rounded once, to nearest, ties to even. The test is
// test/runtime/ReductionTest.cpp.
#ifndef LLMC_RUNTIME_TRANSPORT_REDUCTION_H
#define LLMC_RUNTIME_TRANSPORT_REDUCTION_H

#include "lib/planfile/Program.h"

#include <cstddef>
#include <cstdint>
#include <span>

namespace llmc::runtime {

// Counts the bytes of one chunk of a collective, which one worker reduces or copies at a
// time.
inline constexpr uint64_t kChunkBytes = 32768;

// Refers to the positions `offset` bytes into some buffers, one for each member.
struct OffsetBuffers {
  std::span<std::byte *const> buffers;
  uint64_t offset = 0;
  std::byte *operator[](size_t i) const { return buffers[i] + offset; }
  size_t size() const { return buffers.size(); }
};

// Reduces `bytes` bytes at every source, in order, and writes the result to every
// destination. A destination may be a source; no two overlap otherwise. Reads each source
// byte once and writes each destination byte once. Does nothing for a type that checkBounds()
// refuses.
void reduceTo(planfile::DType type, planfile::ReduceKind kind, const OffsetBuffers &sources,
              const OffsetBuffers &destinations, uint64_t bytes);

} // namespace llmc::runtime

#endif // LLMC_RUNTIME_TRANSPORT_REDUCTION_H
