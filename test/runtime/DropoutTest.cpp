// Tests what drops an element (lib/support/Dropout.h): its rate, and that each part of its name counts.
#include "lib/support/Dropout.h"

#include <cmath>
#include <gtest/gtest.h>
#include <set>

using namespace llmc::support;

namespace {

TEST(Dropout, RateOverTenMillionDraws) {
  constexpr double rate = 0.1;
  constexpr int64_t rows = 10, positions = 1000, elements = 1000, n = rows * positions * elements;
  uint32_t threshold = dropoutThreshold(rate);
  int64_t dropped = 0, neighbours = 0;
  for (uint32_t row = 0; row < rows; ++row) {
    int64_t key = dropoutKey(/*seed=*/7, /*step=*/3, row);
    for (uint32_t position = 0; position < positions; ++position)
      for (uint32_t element = 0, last = 0; element < elements; ++element) {
        uint32_t drops = dropoutWord(key, {1, 2, position, element}) < threshold;
        dropped += drops;
        neighbours += drops & last;
        last = drops;
      }
  }
  auto bound = [&](double p) { return 4 * std::sqrt(p * (1 - p) / double(n)); };
  EXPECT_NEAR(double(dropped) / n, rate, bound(rate));
  EXPECT_NEAR(double(neighbours) / n, rate * rate, 2 * bound(rate * rate)) << "neighbours are independent";
}

TEST(Dropout, EachPartOfTheNameCounts) {
  int64_t key = dropoutKey(1, 2, 3);
  const uint32_t words[] = {
      dropoutWord(key, {5, 6, 7, 8}),
      dropoutWord(dropoutKey(2, 2, 3), {5, 6, 7, 8}),
      dropoutWord(dropoutKey(uint64_t(1) << 32 | 1, 2, 3), {5, 6, 7, 8}),
      dropoutWord(dropoutKey(1, 3, 3), {5, 6, 7, 8}),
      dropoutWord(dropoutKey(1, 2, 4), {5, 6, 7, 8}),
      dropoutWord(key, {4, 6, 7, 8}),
      dropoutWord(key, {5, 7, 7, 8}),
      dropoutWord(key, {5, 6, 8, 8}),
      dropoutWord(key, {5, 6, 7, 9}),
      dropoutWord(key, {6, 5, 7, 8}),
  };
  EXPECT_EQ(std::set<uint32_t>(std::begin(words), std::end(words)).size(), std::size(words));
  EXPECT_EQ(words[0], dropoutWord(dropoutKey(1, 2, 3), {5, 6, 7, 8}));
}

TEST(Dropout, KeysAreExactInDoubles) {
  for (uint64_t row = 0; row < 1000; ++row) {
    int64_t key = dropoutKey(11, row * 77, row);
    EXPECT_GE(key, 0);
    EXPECT_EQ(static_cast<int64_t>(static_cast<double>(key)), key);
  }
}

TEST(Dropout, ThresholdIsTheNearestShare) {
  EXPECT_EQ(dropoutThreshold(0), 0u);
  EXPECT_EQ(dropoutThreshold(0.5), 0x80000000u);
  EXPECT_EQ(dropoutThreshold(1 - 0x1p-40), 0xFFFFFFFFu);
}

} // namespace
