// Draws counter-based random numbers: Philox4x32 with ten rounds (Salmon et al., "Parallel Random
// Numbers: As Easy as 1, 2, 3", SC 2011). Test: test/runtime/RandomTest.cpp (known answers).
#ifndef LLMC_LIB_SUPPORT_PHILOX_H
#define LLMC_LIB_SUPPORT_PHILOX_H

#include <array>
#include <cstdint>

namespace llmc::support {

// Holds the multipliers of the two products of a round, and what a round adds to the two words of the
// key (figure 4 of the paper).
inline constexpr uint32_t kPhiloxFactors[] = {0xD2511F53, 0xCD9E8D57};
inline constexpr uint32_t kPhiloxWeyl[] = {0x9E3779B9, 0xBB67AE85};
inline constexpr int kPhiloxRounds = 10;

// Returns the block of four words that belongs to `counter` under `key`.
constexpr std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  std::array<uint32_t, 4> c = counter;
  for (int round = 0; round < kPhiloxRounds; ++round) {
    uint64_t left = uint64_t(kPhiloxFactors[0]) * c[0], right = uint64_t(kPhiloxFactors[1]) * c[2];
    c = {static_cast<uint32_t>(right >> 32) ^ c[1] ^ key[0], static_cast<uint32_t>(right),
         static_cast<uint32_t>(left >> 32) ^ c[3] ^ key[1], static_cast<uint32_t>(left)};
    key[0] += kPhiloxWeyl[0];
    key[1] += kPhiloxWeyl[1];
  }
  return c;
}

} // namespace llmc::support

#endif // LLMC_LIB_SUPPORT_PHILOX_H
