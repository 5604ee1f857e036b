// Compares what is kept with every other choice: fewest bytes, and lowest price within a limit.
#include "passes/5-schedule/Recompute/KeptSet.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <limits>
#include <random>

using namespace llmc;

namespace {

constexpr int64_t kAny = std::numeric_limits<int64_t>::max();

// Draws a layer of 12 ops on two arguments. Each reads values before it; some make two, some cannot
// run again; most results are needed.
KeptSetProblem drawLayer(std::mt19937 &random) {
  KeptSetProblem problem;
  auto addValue = [&] {
    problem.values.push_back({int64_t(64 * (1 + random() % 16)), random() % 3 != 0});
    return unsigned(problem.values.size() - 1);
  };
  addValue();
  addValue();
  for (int i = 0; i < 12; ++i) {
    KeptSetProblem::Op op;
    op.price = random() % 4 == 0 ? 100 + double(random() % 1000) : double(random() % 20);
    op.mayRedo = random() % 8 != 0;
    for (unsigned n = 1 + random() % 2; n > 0; --n)
      op.operands.push_back(random() % problem.values.size());
    op.results.push_back(addValue());
    if (i == 5)
      op.results.push_back(addValue());
    problem.ops.push_back(op);
  }
  return problem;
}

std::vector<KeptSet> allChoices(const KeptSetProblem &problem) {
  std::vector<KeptSet> all;
  size_t count = problem.values.size();
  for (unsigned bits = 0; bits < 1u << count; ++bits) {
    std::vector<bool> kept;
    for (size_t v = 0; v < count; ++v)
      kept.push_back(bits >> v & 1);
    if (auto set = priced(problem, kept))
      all.push_back(*set);
  }
  return all;
}

} // namespace

TEST(KeptSet, WhatIsKeptSufficesAndIsPriced) {
  // 0 -> (op of 5) -> 1 -> (op of 7) -> 2, which is needed.
  KeptSetProblem problem{{{10}, {4}, {10, true}}, {{5, true, {0}, {1}}, {7, true, {1}, {2}}}};
  EXPECT_EQ(priced(problem, {true, false, false})->price, 12);
  EXPECT_EQ(priced(problem, {false, true, false})->price, 7);
  EXPECT_EQ(priced(problem, {false, true, false})->bytes, 4);
  EXPECT_EQ(priced(problem, {false, false, true})->price, 0);
  EXPECT_FALSE(priced(problem, {false, false, false}).has_value());
  problem.ops[1].mayRedo = false;
  EXPECT_FALSE(priced(problem, {false, true, false}).has_value());
}

TEST(KeptSet, NoChoiceOfALayerIsMoreThanOnePercentCheaper) {
  std::mt19937 random(16);
  int between = 0; // limits that neither allow all nor force the least
  for (int layer = 0; layer < 12; ++layer) {
    KeptSetProblem problem = drawLayer(random);
    std::vector<KeptSet> all = allChoices(problem);
    auto fewer = [](const KeptSet &a, const KeptSet &b) { return a.bytes < b.bytes; };
    int64_t least = std::min_element(all.begin(), all.end(), fewer)->bytes, free = kAny;
    for (const KeptSet &set : all)
      free = set.price == 0 ? std::min(free, set.bytes) : free;
    EXPECT_EQ(keepFewestBytes(problem).bytes, least);
    EXPECT_FALSE(keepCheapest(problem, least - 1).has_value());
    for (int i = 0; i < 10; ++i) {
      int64_t limit = least + (free - least) * i / 9;
      double cheapest = std::numeric_limits<double>::infinity();
      for (const KeptSet &set : all)
        if (set.bytes <= limit)
          cheapest = std::min(cheapest, set.price);
      std::optional<KeptSet> found = keepCheapest(problem, limit);
      ASSERT_TRUE(found.has_value());
      EXPECT_LE(found->bytes, limit);
      EXPECT_LE(found->price, cheapest * 1.01);
      std::optional<KeptSet> again = priced(problem, found->kept);
      ASSERT_TRUE(again.has_value());
      EXPECT_EQ(again->price, found->price);
      between += cheapest > 0 && limit > least;
    }
  }
  EXPECT_GT(between, 60);
}

TEST(KeptSet, AnyLimitAllowsToKeepAll) {
  std::mt19937 random(5);
  KeptSetProblem problem = drawLayer(random);
  EXPECT_EQ(keepCheapest(problem, kAny)->price, 0);
}

TEST(KeptSet, ALargeStageIsSearchedWithinItsBound) {
  // Models 40 chains of ten ops whose sizes and prices are drawn: no limit falls on the hull.
  std::mt19937 random(3);
  KeptSetProblem problem;
  int64_t all = 0;
  for (int chain = 0; chain < 40; ++chain) {
    problem.values.push_back({int64_t(1 + random() % 1000), false});
    for (int i = 0; i < 10; ++i) {
      unsigned from = problem.values.size() - 1;
      problem.values.push_back({int64_t(1 + random() % 1000), true});
      all += problem.values.back().bytes;
      problem.ops.push_back({double(1 + random() % 100000), true, {from}, {from + 1}});
    }
  }
  std::optional<KeptSet> found = keepCheapest(problem, all / 2);
  ASSERT_TRUE(found.has_value());
  EXPECT_LE(found->bytes, all / 2);
  EXPECT_GT(found->bytes, all / 2 - 1000);
}
