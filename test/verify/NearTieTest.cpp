// A gap is no larger than what scores have to move by so that they choose other experts, and, without groups, no
// smaller.
#include "lib/verify/routes/NearTie.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <numeric>
#include <random>
#include <vector>

using namespace llmc;
using verify::tieGap;
using verify::TieGap;

namespace {

planfile::RoutesT ruleOf(int64_t experts, int64_t groups = 1, int64_t kept = 1, int64_t terms = 1) {
  planfile::RoutesT rule;
  rule.experts = experts;
  rule.groups = groups, rule.kept_groups = kept, rule.group_terms = terms;
  return rule;
}

// Returns the numbers of the largest values, best first; of equal ones the lower number comes first.
std::vector<int32_t> largest(const std::vector<double> &values, size_t count) {
  std::vector<int32_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return values[a] > values[b]; });
  order.resize(count);
  return order;
}

// Chooses experts as graph.route does.
std::vector<int32_t> chosen(std::vector<double> scores, const planfile::RoutesT &rule, size_t choices) {
  size_t inGroup = scores.size() / rule.groups;
  std::vector<double> sums;
  for (int64_t g = 0; g < rule.groups; ++g) {
    std::vector<double> group(scores.begin() + g * inGroup, scores.begin() + (g + 1) * inGroup);
    std::sort(group.rbegin(), group.rend());
    sums.push_back(std::accumulate(group.begin(), group.begin() + rule.group_terms, 0.0));
  }
  std::vector<int32_t> kept = largest(sums, rule.kept_groups);
  for (size_t e = 0; e < scores.size(); ++e)
    if (std::find(kept.begin(), kept.end(), int32_t(e / inGroup)) == kept.end())
      scores[e] = -INFINITY;
  return largest(scores, choices);
}

TEST(NearTie, SayWhichExpertIsPreferred) {
  std::vector<float> scores = {0.1f, 0.5f, 0.25f, 0.45f};
  std::vector<int32_t> own = {1, 3}, swapped = {3, 1}, other = {1, 2};
  EXPECT_EQ(tieGap(scores, own, ruleOf(4)).gap, 0);
  TieGap gap = tieGap(scores, swapped, ruleOf(4));
  EXPECT_NEAR(gap.gap, 0.05, 1e-7);
  EXPECT_EQ(gap.wanted, 3);
  EXPECT_EQ(gap.preferred, 1);
  gap = tieGap(scores, other, ruleOf(4));
  EXPECT_NEAR(gap.gap, 0.2, 1e-7);
  EXPECT_EQ(gap.wanted, 2);
  EXPECT_EQ(gap.preferred, 3);
}

TEST(NearTie, TiesAreBetweenGroupsToo) {
  // Keeps the groups with the sums 9 and 8; that of 7.5 is half a score of two terms off.
  std::vector<float> scores = {5, 4, 6, 2, 7, 0.5f, 1, 0};
  planfile::RoutesT rule = ruleOf(8, 4, 2, 2);
  std::vector<int32_t> own = {2, 0}, near = {4, 0}, far = {6, 0}, mixed = {4, 2};
  EXPECT_EQ(chosen({scores.begin(), scores.end()}, rule, 2), own);
  EXPECT_EQ(tieGap(scores, own, rule).gap, 0);
  // Expert 2 has a larger score than 0, but leaves with its group.
  EXPECT_NEAR(tieGap(scores, near, rule).gap, 0.25, 1e-7);
  EXPECT_NEAR(tieGap(scores, mixed, rule).gap, 0.25, 1e-7);
  EXPECT_GE(tieGap(scores, far, rule).gap, 3.5);
  std::vector<int32_t> threeGroups = {4, 2, 0};
  EXPECT_TRUE(std::isinf(tieGap(scores, threeGroups, rule).gap));
}

TEST(NearTie, WhatIsNoChoiceIsNever) {
  std::vector<float> scores = {3, 2, 1, NAN};
  for (std::vector<int32_t> wanted : {std::vector<int32_t>{0, 0}, {0, 4}, {-1, 0}, {0, 3}})
    EXPECT_TRUE(std::isinf(tieGap(scores, wanted, ruleOf(4)).gap)) << wanted[0] << " " << wanted[1];
  std::vector<float> none = {NAN, NAN};
  std::vector<int32_t> any = {1, 0};
  EXPECT_EQ(tieGap(none, any, ruleOf(2)).gap, 0);
  EXPECT_EQ(verify::sizeOfScores(scores), 3);
}

TEST(NearTie, GapsAreWhatScoresMoveBy) {
  std::mt19937 random(7);
  std::uniform_real_distribution<float> unit(-1, 1);
  int differ = 0, sound = 0;
  for (int draw = 0; draw < 20000; ++draw) {
    bool grouped = draw % 2;
    planfile::RoutesT rule = grouped ? ruleOf(12, 4, 1 + draw / 2 % 3, 1 + draw / 6 % 3) : ruleOf(12);
    double e = 0.3 * std::pow(2.0, -(draw % 7));
    std::vector<float> scores(12);
    std::vector<double> moved;
    for (float &score : scores) {
      score = unit(random);
      moved.push_back(score + e * unit(random));
    }
    std::vector<int32_t> wanted = chosen(moved, rule, 3);
    differ += wanted != chosen({scores.begin(), scores.end()}, rule, 3);
    double gap = tieGap(scores, wanted, rule).gap;
    ASSERT_LE(gap, 2 * e) << "draw " << draw;
    ASSERT_EQ(gap == 0, wanted == chosen({scores.begin(), scores.end()}, rule, 3)) << "draw " << draw;
    if (grouped || gap == 0)
      continue;
    // Moves each score by half of the gap and a little more: the wanted experts are chosen then.
    double half = gap / 2 * (1 + 1e-9) + 1e-12, least = INFINITY;
    for (size_t i = 0; i < scores.size(); ++i)
      moved[i] = scores[i] - half;
    for (size_t c = 0; c < wanted.size(); ++c)
      moved[wanted[c]] = least = std::min(least - 1e-13, scores[wanted[c]] + half);
    EXPECT_EQ(chosen(moved, rule, 3), wanted) << "draw " << draw;
    ++sound;
  }
  EXPECT_GT(differ, 1000);
  EXPECT_GT(sound, 500);
}

} // namespace
