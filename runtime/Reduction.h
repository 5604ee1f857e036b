// The arithmetic of collectives. Sums add in the order of the group.
#ifndef LLMC_RUNTIME_REDUCTION_H
#define LLMC_RUNTIME_REDUCTION_H

#include "lib/planfile/Program.h"

#include <cstddef>
#include <cstdint>
#include <span>

namespace llmc::runtime {

// Bytes of one piece of a collective: what one worker does at a time.
inline constexpr uint64_t kChunkBytes = 32768;

// Reduces `bytes` (at most kChunkBytes) at `offset` of every source, in order,
// to `scratch`.
void reduceChunk(planfile::DType type, planfile::ReduceKind kind,
                 std::span<std::byte *const> sources, uint64_t offset, uint64_t bytes,
                 std::byte *scratch);

} // namespace llmc::runtime

#endif // LLMC_RUNTIME_REDUCTION_H
