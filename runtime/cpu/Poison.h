// Marks bytes that nothing may read, for Adversary.h. The test is test/runtime/AdversaryTest.cpp
// (UnwrittenBytesArePoison, PoisonIsNaNInEveryType).
#ifndef LLMC_RUNTIME_CPU_POISON_H
#define LLMC_RUNTIME_CPU_POISON_H

#include <cstddef>
#include <cstdint>

namespace llmc::runtime {

// Fills the bytes [begin, end) of an arena with poison: a quiet NaN as a float of 16, 32 or 64
// bits; as an index it is out of every range.
void poison(std::byte *arena, uint64_t begin, uint64_t end);
// Fills bytes with what may be anything, and is read by instructions that drop it: a NaN, and less than 0
// as an index, as poison is, but not found as such.
void fillWithAnything(std::byte *arena, uint64_t begin, uint64_t end);
// Returns the offset of the first word of poison in [begin, end), or `end`.
uint64_t findPoison(const std::byte *arena, uint64_t begin, uint64_t end);

} // namespace llmc::runtime

#endif // LLMC_RUNTIME_CPU_POISON_H
