// Draws counter-based random numbers: a value is a function of its key and its index alone,
// so it depends neither on the rank that draws it nor on the order. The test is
// test/runtime/RandomTest.cpp.
#ifndef LLMC_RUNTIME_STATES_RANDOM_H
#define LLMC_RUNTIME_STATES_RANDOM_H

#include "lib/support/Philox.h"

namespace llmc::runtime {

using support::philox;

// Returns standard normal number `index` of the stream (`seed`, `stream`), by Box-Muller.
double normal(uint64_t seed, uint64_t stream, uint64_t index);

// Returns the image of `index` under the permutation of [0, size) that (seed, epoch) selects.
uint64_t permute(uint64_t seed, uint64_t epoch, uint64_t size, uint64_t index);

} // namespace llmc::runtime

#endif // LLMC_RUNTIME_STATES_RANDOM_H
