#include "runtime/states/Random.h"

#include <cmath>
#include <gtest/gtest.h>
#include <vector>

using namespace llmc::runtime;

namespace {

using Counter = std::array<uint32_t, 4>;

// The vectors that come with Random123 (kat_vectors, philox4x32 10).
TEST(Random, PhiloxKnownAnswers) {
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}),
            (Counter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (Counter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Counter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Random, NormalHasItsMoments) {
  constexpr int n = 200000;
  double sum = 0, squares = 0, fourth = 0, neighbours = 0, last = 0;
  for (int i = 0; i < n; ++i) {
    double x = normal(7, 99, uint64_t(i));
    sum += x, squares += x * x, fourth += x * x * x * x, neighbours += x * last;
    last = x;
  }
  EXPECT_NEAR(sum / n, 0, 0.01);
  EXPECT_NEAR(squares / n, 1, 0.02);
  EXPECT_NEAR(fourth / n, 3, 0.1);
  EXPECT_NEAR(neighbours / n, 0, 0.01);
}

TEST(Random, NormalDependsOnEachOfItsKeys) {
  double x = normal(1, 2, 3);
  EXPECT_EQ(x, normal(1, 2, 3));
  EXPECT_NE(x, normal(2, 2, 3));
  EXPECT_NE(x, normal(uint64_t(1) << 32 | 1, 2, 3));
  EXPECT_NE(x, normal(1, 3, 3));
  EXPECT_NE(x, normal(1, 2 + (uint64_t(1) << 40), 3));
  EXPECT_NE(x, normal(1, 2, 2));
  EXPECT_NE(x, normal(1, 2, 3 + (uint64_t(1) << 34)));
}

TEST(Random, PermuteIsAPermutation) {
  for (uint64_t size : {1u, 2u, 3u, 5u, 16u, 17u, 1000u, 4097u}) {
    std::vector<bool> seen(size);
    uint64_t fixed = 0;
    for (uint64_t i = 0; i < size; ++i) {
      uint64_t to = permute(3, 0, size, i);
      ASSERT_LT(to, size);
      ASSERT_FALSE(seen[to]);
      seen[to] = true;
      fixed += to == i;
    }
    if (size > 100) {
      EXPECT_LT(fixed, 10u);
    }
  }
}

TEST(Random, PermuteDependsOnSeedAndEpoch) {
  int sameEpoch = 0, sameSeed = 0;
  for (uint64_t i = 0; i < 1000; ++i) {
    sameEpoch += permute(1, 0, 1000, i) == permute(1, 1, 1000, i);
    sameSeed += permute(1, 0, 1000, i) == permute(2, 0, 1000, i);
  }
  EXPECT_LT(sameEpoch, 10);
  EXPECT_LT(sameSeed, 10);
}

} // namespace
