#include "lib/verify/routes/NearTie.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <vector>

namespace llmc::verify {

namespace {

// Holds the scores of a token, and those of its groups.
class Ranking {
public:
  Ranking(std::span<const float> scores, const planfile::RoutesT &rule)
      : inGroup(static_cast<int64_t>(scores.size()) / rule.groups), terms(static_cast<double>(rule.group_terms)) {
    for (float score : scores)
      values.push_back(std::isnan(score) ? -INFINITY : double(score));
    for (int64_t g = 0; g < rule.groups; ++g) {
      std::vector<double> group(values.begin() + g * inGroup, values.begin() + (g + 1) * inGroup);
      std::sort(group.begin(), group.end(), std::greater<>());
      double sum = 0;
      for (int64_t i = 0; i < rule.group_terms; ++i)
        sum += group[i];
      sums.push_back(sum);
    }
    std::vector<double> sorted(sums);
    std::sort(sorted.begin(), sorted.end(), std::greater<>());
    hasOthers = rule.kept_groups < rule.groups;
    lastKept = sorted[rule.kept_groups - 1];
    firstOther = hasOthers ? sorted[rule.kept_groups] : 0;
  }

  int64_t groupOf(int64_t expert) const { return expert / inGroup; }
  double operator[](int64_t expert) const { return values[expert]; }
  // Returns by how much each score of a group would have to change so that it is kept, or is not.
  double untilKept(int64_t group) const { return hasOthers ? above(lastKept, sums[group]) / terms : 0; }
  double untilLeft(int64_t group) const { return hasOthers ? above(sums[group], firstOther) / terms : INFINITY; }
  // Returns the expert with the largest score of the worst group that is kept.
  int64_t bestOfLastKept() const {
    auto group = std::find(sums.begin(), sums.end(), lastKept) - sums.begin();
    auto begin = values.begin() + group * inGroup;
    return std::max_element(begin, begin + inGroup) - values.begin();
  }
  // Returns x - y if it is positive; equal infinities have no distance.
  static double above(double x, double y) { return x > y ? x - y : 0; }

private:
  int64_t inGroup;
  double terms;
  std::vector<double> values, sums;
  bool hasOthers;
  double lastKept, firstOther; // sums of the worst group that is kept, and of the best that is not
};

} // namespace

TieGap tieGap(std::span<const float> scores, std::span<const int32_t> wanted, const planfile::RoutesT &rule) {
  Ranking ranking(scores, rule);
  auto experts = static_cast<int64_t>(scores.size());
  std::vector<bool> isTaken(experts);
  std::set<int64_t> groups;
  TieGap worst;
  auto note = [&](double gap, int64_t want, int64_t preferred) {
    if (gap > worst.gap)
      worst = {gap, want, preferred};
  };
  for (int64_t expert : wanted) {
    if (expert < 0 || expert >= experts || isTaken[expert])
      return {INFINITY, expert, -1};
    isTaken[expert] = true;
    groups.insert(ranking.groupOf(expert));
  }
  if (static_cast<int64_t>(groups.size()) > rule.kept_groups)
    return {INFINITY, wanted.back(), -1};
  std::fill(isTaken.begin(), isTaken.end(), false);
  for (int64_t expert : wanted) {
    isTaken[expert] = true;
    note(ranking.untilKept(ranking.groupOf(expert)), expert, ranking.bestOfLastKept());
    for (int64_t other = 0; other < experts; ++other) {
      double gap = Ranking::above(ranking[other], ranking[expert]);
      if (isTaken[other] || gap <= worst.gap)
        continue;
      if (!groups.count(ranking.groupOf(other)))
        gap = std::min(gap, ranking.untilLeft(ranking.groupOf(other)));
      note(gap, expert, other);
    }
  }
  return worst;
}

double sizeOfScores(std::span<const float> scores) {
  double size = 0;
  for (float score : scores)
    if (std::isfinite(score))
      size = std::max(size, std::abs(double(score)));
  return size;
}

} // namespace llmc::verify
