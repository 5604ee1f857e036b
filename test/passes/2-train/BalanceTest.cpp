// Compares the division of layers into stages with every other one.
#include "passes/2-train/DivideLayers/Balance.h"

#include <algorithm>
#include <chrono>
#include <gtest/gtest.h>
#include <numeric>
#include <random>

using namespace llmc::stages;

namespace {

using Counts = std::vector<int64_t>;

// Represents a division and its rank: the largest stage, then the sum of squares.
struct Division {
  Counts counts;
  double largest = 0, squares = 0;

  bool isBetterThan(const Division &other) const {
    if (largest != other.largest || squares != other.squares)
      return std::pair(largest, squares) < std::pair(other.largest, other.squares);
    return counts > other.counts; // more layers on earlier stages
  }
};

// Finds the best division by trying all.
class Search {
public:
  Search(const LayerCosts &costs, int64_t stages) : costs(costs), stages(stages) { extend({}, 0); }
  std::optional<Division> best;

private:
  void extend(const Division &division, int64_t from) {
    int64_t k = division.counts.size(), layers = costs.layers.size();
    if (k == stages) {
      if (from == layers && (!best || division.isBetterThan(*best)))
        best = division;
      return;
    }
    bool isEnd = k == 0 || k == stages - 1;
    if (k > 0 && from < layers && !costs.mayBegin[from])
      return;
    double cost = (k == 0 ? costs.before : 0) + (k == stages - 1 ? costs.after : 0);
    for (int64_t to = from; to <= layers; ++to) {
      if (to > from)
        cost += costs.layers[to - 1];
      if (to == from && !isEnd)
        continue;
      Division next = division;
      next.counts.push_back(to - from);
      next.largest = std::max(next.largest, cost);
      next.squares += cost * cost;
      extend(next, to);
    }
  }

  const LayerCosts &costs;
  int64_t stages;
};

LayerCosts even(int64_t layers, double before = 0, double after = 0) {
  return {std::vector<double>(layers, 1), std::vector<bool>(layers, true), before, after};
}

// Draws whole costs whose sum is a power of two, so that shares of it are exact.
LayerCosts drawCosts(std::mt19937 &random, int64_t layers) {
  LayerCosts costs;
  bool equal = random() % 3 == 0;
  for (int64_t i = 0; i < layers; ++i) {
    costs.layers.push_back(equal ? 4 : double(1 + random() % 8));
    costs.mayBegin.push_back(i == 0 || random() % 4 != 0);
  }
  costs.before = double(random() % 6);
  costs.after = random() % 2 ? double(random() % 40) : 0;
  double all =
             std::accumulate(costs.layers.begin(), costs.layers.end(), costs.before + costs.after),
         round = 1;
  while (round < all)
    round *= 2;
  for (; all < round; ++all)
    ++(random() % 2 && !equal && layers ? costs.layers[random() % layers]
       : random() % 2                   ? costs.before
                                        : costs.after);
  return costs;
}

} // namespace

TEST(Balance, NoOtherDivisionIsBetter) {
  std::mt19937 random(7); // one seed, so that a failure comes again
  int none = 0, uneven = 0;
  for (int i = 0; i < 3000; ++i) {
    int64_t layers = random() % 10, stages = 1 + random() % 6;
    LayerCosts costs = drawCosts(random, layers);
    Search search(costs, stages);
    std::optional<Counts> got = balance(costs, stages);
    ASSERT_EQ(got.has_value(), search.best.has_value()) << "draw " << i;
    none += !got;
    if (!got)
      continue;
    EXPECT_EQ(*got, search.best->counts)
        << "draw " << i << ", " << layers << " layers, " << stages << " stages";
    uneven += std::adjacent_find(got->begin(), got->end(), std::not_equal_to<>()) != got->end();
  }
  EXPECT_GT(none, 200);
  EXPECT_GT(uneven, 500);
}

TEST(Balance, EqualDivisionsHaveMoreLayersOnEarlierStages) {
  EXPECT_EQ(balance(even(7), 3), (Counts{3, 2, 2}));
  EXPECT_EQ(balance(even(8), 3), (Counts{3, 3, 2}));
  EXPECT_EQ(balance(even(8), 4), (Counts{2, 2, 2, 2}));
  EXPECT_EQ(balance(even(5), 1), Counts{5});
  // Divides evenly what is left beside the head, which is the largest stage either way.
  EXPECT_EQ(balance(even(6, 0, 4), 3), (Counts{3, 3, 0}));
  // Takes divisions of layers without costs as equal.
  EXPECT_EQ(balance({std::vector<double>(4, 0), std::vector<bool>(4, true)}, 3), (Counts{3, 1, 0}));
}

TEST(Balance, CostsOfAnySizeAreCompared) {
  // Describes 80 layers of 1e15 FLOPs and a head of as many as six of them.
  LayerCosts large{std::vector<double>(80, 1e15), std::vector<bool>(80, true), 0, 6e15};
  EXPECT_EQ(balance(large, 8), (Counts{11, 11, 11, 11, 11, 11, 10, 4}));
  LayerCosts small{std::vector<double>(3, 1e-9), std::vector<bool>(3, true), 0, 0};
  EXPECT_EQ(balance(small, 3), (Counts{1, 1, 1}));
}

TEST(Balance, OnlyTheEndsHaveNoLayers) {
  EXPECT_EQ(balance(even(2, 10, 10), 4), (Counts{0, 1, 1, 0}));
  EXPECT_EQ(balance(even(2), 5), std::nullopt);
  EXPECT_EQ(balance(even(1, 3, 3), 3), (Counts{0, 1, 0}));
  EXPECT_EQ(balance(even(1, 3, 3), 2), (Counts{1, 0}));
  EXPECT_EQ(balance(even(0), 2), (Counts{0, 0}));
  EXPECT_EQ(balance(even(0), 3), std::nullopt);
  EXPECT_EQ(balance(even(0), 1), Counts{0});
}

TEST(Balance, StagesBeginWhereTheyMay) {
  LayerCosts pairs = even(6);
  pairs.mayBegin = {true, false, true, false, true, false};
  EXPECT_EQ(balance(pairs, 2), (Counts{4, 2}));
  EXPECT_EQ(balance(pairs, 3), (Counts{2, 2, 2}));
  EXPECT_EQ(balance(pairs, 5), (Counts{0, 2, 2, 2, 0}));
  EXPECT_EQ(balance(pairs, 6), std::nullopt);
}

// Divides a deep model with a head that takes as much as half of its layers: a search divides it over all numbers of stages.
TEST(Balance, ManyLayersTakeNoTime) {
  auto begin = std::chrono::steady_clock::now();
  for (int64_t stages = 2; stages <= 1002; stages += 20) {
    std::optional<Counts> counts = balance(even(1000, 0, 500), stages);
    ASSERT_TRUE(counts.has_value());
    EXPECT_EQ(std::accumulate(counts->begin(), counts->end(), int64_t(0)), 1000);
    auto [least, most] = std::minmax_element(counts->begin(), counts->end() - 1);
    EXPECT_LE(*most - *least, 1) << stages;
  }
  EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(), 2);
}
