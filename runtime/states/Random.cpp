#include "runtime/states/Random.h"

#include <bit>
#include <cmath>
#include <numbers>

using namespace llmc;

double runtime::normal(uint64_t seed, uint64_t stream, uint64_t index) {
  // Computes two numbers from a block (Box-Muller): elements 2i and 2i + 1 share it.
  uint64_t block = index / 2;
  std::array<uint32_t, 4> bits =
      philox({uint32_t(block), uint32_t(block >> 32), uint32_t(stream), uint32_t(stream >> 32)},
             {uint32_t(seed), uint32_t(seed >> 32)});
  // Returns a number in (0, 1) of 52 bits, which excludes both ends exactly.
  auto uniform = [](uint32_t high, uint32_t low) {
    return (double(((uint64_t(high) << 32) | low) >> 12) + 0.5) * 0x1p-52;
  };
  double radius = std::sqrt(-2.0 * std::log(uniform(bits[0], bits[1])));
  double angle = 2.0 * std::numbers::pi * uniform(bits[2], bits[3]);
  return radius * (index % 2 == 0 ? std::cos(angle) : std::sin(angle));
}

uint64_t runtime::permute(uint64_t seed, uint64_t epoch, uint64_t size, uint64_t index) {
  if (size < 2)
    return index;
  // Applies a Feistel network over the smallest even power of two that holds `size`, until
  // the result falls below `size` (cycle walking), which keeps it a permutation.
  unsigned half = (static_cast<unsigned>(std::bit_width(size - 1)) + 1) / 2;
  uint64_t mask = (uint64_t(1) << half) - 1;
  // Uses another key than the weights that are drawn from the same seed.
  std::array<uint32_t, 2> key = {uint32_t(seed) ^ 0x6C6C6D63, uint32_t(seed >> 32)};
  do {
    uint64_t left = index >> half, right = index & mask;
    for (uint32_t round = 0; round < 6; ++round) {
      uint64_t mixed = philox({uint32_t(right), round, uint32_t(epoch), uint32_t(epoch >> 32)},
                              key)[0];
      uint64_t next = left ^ (mixed & mask);
      left = right;
      right = next;
    }
    index = (left << half) | right;
  } while (index >= size);
  return index;
}
