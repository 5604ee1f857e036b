// Counter-based randomness: a value is a function of its key and its index, so
// it does not depend on which rank draws it, nor on when.
#ifndef LLMC_RUNTIME_STATES_RANDOM_H
#define LLMC_RUNTIME_STATES_RANDOM_H

#include <array>
#include <cstdint>

namespace llmc::runtime {

// Philox4x32 with ten rounds (Salmon et al., SC 2011).
std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

// Standard normal number of element `index` of the stream (`seed`, `stream`).
double normal(uint64_t seed, uint64_t stream, uint64_t index);

// Where `index` goes under the permutation of [0, size) that (seed, epoch) picks.
uint64_t permute(uint64_t seed, uint64_t epoch, uint64_t size, uint64_t index);

} // namespace llmc::runtime

#endif // LLMC_RUNTIME_STATES_RANDOM_H
