#include "passes/2-train/DivideLayers/Balance.h"

#include <algorithm>
#include <cmath>

namespace llmc::stages {
namespace {

// Computes with whole numbers, so that equal divisions compare equal: 2^30 stands for all costs. Sums of squares are then 2^60.
constexpr double kUnits = 1 << 30;

// Divides layers at the places where a stage may begin: bound i is the first layer of group i, and the last one the end.
class Balancer {
public:
  Balancer(const LayerCosts &costs, int64_t stages) : stages(stages) {
    double total = costs.before + costs.after;
    for (double cost : costs.layers)
      total += cost;
    double unit = total > 0 ? kUnits / total : 0;
    auto whole = [&](double cost) { return int64_t(std::llround(cost * unit)); };
    before = whole(costs.before), after = whole(costs.after);
    const size_t layers = costs.layers.size();
    int64_t sum = 0;
    for (size_t layer = 0; layer < layers; sum += whole(costs.layers[layer]), ++layer)
      if (layer == 0 || costs.mayBegin[layer])
        bounds.push_back(int64_t(layer)), sums.push_back(sum);
    end = int64_t(bounds.size());
    bounds.push_back(int64_t(layers)), sums.push_back(sum);
    leastOfFirst = layers == 0 || costs.mayBegin[0] ? 0 : 1;
  }

  std::optional<std::vector<int64_t>> run() {
    if (stages == 1)
      return std::vector<int64_t>{bounds.back()};
    // Looks for the least cost of the largest stage, which is at least that of any group.
    int64_t least = std::max(before, after), most = sums.back() + before + after;
    for (int64_t i = 0; i < end; ++i)
      least = std::max(least, sums[i + 1] - sums[i]);
    if (!findRanges(most))
      return std::nullopt;
    while (least < most) {
      int64_t middle = least + (most - least) / 2;
      if (findRanges(middle))
        most = middle;
      else
        least = middle + 1;
    }
    findRanges(most);
    return mostEven();
  }

private:
  // Holds the bounds with which a stage may begin.
  struct Range {
    int64_t first, last;
  };

  int64_t costOf(int64_t from, int64_t to) const { return sums[to] - sums[from]; }
  // Returns the last bound up to which a stage that begins with `from` costs no more than `most`.
  int64_t reach(int64_t from, int64_t most) const {
    return std::upper_bound(sums.begin() + from, sums.end(), sums[from] + most) - sums.begin() - 1;
  }

  // Finds, for stages that cost at most `most`, the bounds with which each stage begins in some division. False if there is none.
  bool findRanges(int64_t most) {
    limit = most;
    ranges.assign(stages, {0, 0});
    // Goes back from the end: a stage takes as much as it may, or what leaves each later one a group.
    ranges[stages - 1] = {std::lower_bound(sums.begin(), sums.end(), sums.back() - (most - after)) - sums.begin(), end};
    for (int64_t k = stages - 1; k-- > 1;) {
      const int64_t next = ranges[k + 1].first;
      ranges[k] = {std::lower_bound(sums.begin(), sums.begin() + next, sums[next] - most) - sums.begin(), ranges[k + 1].last - 1};
      if (ranges[k].last < 0)
        return false;
    }
    // Goes forward from the beginning in the same way.
    Range begin{leastOfFirst, reach(0, most - before)};
    for (int64_t k = 1; k < stages; begin = {begin.first + 1, reach(begin.last, most)}, ++k) {
      ranges[k] = {std::max(ranges[k].first, begin.first), std::min(ranges[k].last, begin.last)};
      if (ranges[k].first > ranges[k].last)
        return false;
    }
    return true;
  }

  // Returns the most even division without a stage above the limit, which exists. Squares of sums meet the quadrangle inequality:
  // the later a stage begins, the later ends the best one (Yao, 1980), so that half of the beginnings are looked at with half of
  // the ends.
  std::vector<int64_t> mostEven() {
    std::vector<std::vector<int64_t>> ends(stages);
    squares.assign(end + 1, 0);
    for (int64_t from = ranges[stages - 1].first; from <= ranges[stages - 1].last; ++from)
      squares[from] = square(costOf(from, end) + after);
    for (int64_t k = stages - 1; k-- > 0;) {
      following.swap(squares);
      squares.assign(end + 1, 0);
      ends[k].assign(ranges[k].last - ranges[k].first + 1, 0);
      findEnds(k, ranges[k].first, ranges[k].last, ranges[k + 1].first, ranges[k + 1].last, ends[k]);
    }
    std::vector<int64_t> counts;
    int64_t from = 0;
    for (int64_t k = 0; k + 1 < stages; ++k) {
      int64_t to = ends[k][from - ranges[k].first];
      counts.push_back(bounds[to] - bounds[from]);
      from = to;
    }
    counts.push_back(bounds[end] - bounds[from]);
    return counts;
  }

  static uint64_t square(int64_t cost) { return uint64_t(cost) * uint64_t(cost); }

  // Finds the best ends of stage k, among those from `least` to `most`, for the beginnings from `first` to `last`.
  void findEnds(int64_t k, int64_t first, int64_t last, int64_t least, int64_t most, std::vector<int64_t> &ends) {
    if (first > last)
      return;
    const int64_t from = first + (last - first) / 2, own = k == 0 ? before : 0;
    const int64_t begin = std::max(from + (k == 0 ? leastOfFirst : 1), least), stop = std::min(reach(from, limit - own), most);
    int64_t best = begin;
    uint64_t fewest = UINT64_MAX;
    for (int64_t to = begin; to <= stop; ++to)
      if (uint64_t sum = square(costOf(from, to) + own) + following[to]; sum <= fewest) // of equal ones the last has most layers
        fewest = sum, best = to;
    squares[from] = fewest;
    ends[from - ranges[k].first] = best;
    findEnds(k, first, from - 1, least, best, ends);
    findEnds(k, from + 1, last, best, most, ends);
  }

  const int64_t stages;
  int64_t before, after, end, leastOfFirst, limit = 0;
  std::vector<int64_t> bounds, sums; // the first layer of each group, and the costs of what is before it
  std::vector<Range> ranges;         // of each stage
  std::vector<uint64_t> squares, following; // least sums, by the beginning of a stage and of the next one
};

} // namespace

std::optional<std::vector<int64_t>> balance(const LayerCosts &costs, int64_t stages) {
  return Balancer(costs, stages).run();
}

} // namespace llmc::stages
