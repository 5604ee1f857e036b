// The arithmetic of collectives. Sums add in the order of the group, those of 16-bit floats
// in 32 bits and rounded once, to nearest, ties to even.
#ifndef LLMC_RUNTIME_TRANSPORT_REDUCTION_H
#define LLMC_RUNTIME_TRANSPORT_REDUCTION_H

#include "lib/planfile/Program.h"

#include <cstddef>
#include <cstdint>
#include <span>

namespace llmc::runtime {

// Bytes of one piece of a collective: what one worker does at a time.
inline constexpr uint64_t kChunkBytes = 32768;

// Places `offset` bytes into some buffers.
struct Places {
  std::span<std::byte *const> buffers;
  uint64_t offset = 0;
  std::byte *operator[](size_t i) const { return buffers[i] + offset; }
  size_t size() const { return buffers.size(); }
};

// Reduces `bytes` at every source, in order, and writes the result to every
// destination. A destination may be a source; no two overlap otherwise. One pass:
// each byte is read once and written once.
void reduceTo(planfile::DType type, planfile::ReduceKind kind, const Places &sources,
              const Places &destinations, uint64_t bytes);

} // namespace llmc::runtime

#endif // LLMC_RUNTIME_TRANSPORT_REDUCTION_H
