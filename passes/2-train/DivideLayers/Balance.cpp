#include "passes/2-train/DivideLayers/Balance.h"

#include <algorithm>
#include <cmath>

namespace llmc::stages {
namespace {

// Computes with whole numbers, so that equal divisions compare equal: 2^30 stands for all costs.
constexpr double kUnits = 1 << 30;
using Squares = unsigned __int128;

class Balancer {
public:
  Balancer(const LayerCosts &costs, int64_t stages)
      : costs(costs), stages(stages), layers(int64_t(costs.layers.size())) {
    double total = costs.before + costs.after;
    for (double cost : costs.layers)
      total += cost;
    double unit = total > 0 ? kUnits / total : 0;
    auto whole = [&](double cost) { return int64_t(std::llround(cost * unit)); };
    before = whole(costs.before), after = whole(costs.after);
    sums.push_back(0);
    for (double cost : costs.layers)
      sums.push_back(sums.back() + whole(cost));
  }

  std::optional<std::vector<int64_t>> run() {
    if (stages - 2 > layers)
      return std::nullopt;
    std::optional<int64_t> most = leastLargest();
    if (!most)
      return std::nullopt;
    return mostEven(*most);
  }

private:
  // Returns the cost of stage k with layers [from, to); nullopt if it may not have these.
  std::optional<int64_t> costOf(int64_t k, int64_t from, int64_t to) const {
    bool isEnd = k == 0 || k == stages - 1;
    if ((from == to && !isEnd) || (k > 0 && from < layers && !costs.mayBegin[from]))
      return std::nullopt;
    return sums[to] - sums[from] + (k == 0 ? before : 0) + (k == stages - 1 ? after : 0);
  }

  // Returns the least cost of the largest stage, if there is a division. best[i] is that of stages
  // k and later, which have layers i and later.
  std::optional<int64_t> leastLargest() const {
    std::vector<std::optional<int64_t>> best(layers + 1), next;
    best[layers] = 0;
    for (int64_t k = stages; k-- > 0;) {
      next.assign(layers + 1, std::nullopt);
      for (int64_t from = 0; from <= layers; ++from)
        for (int64_t to = from; to <= layers; ++to)
          if (auto cost = costOf(k, from, to); cost && next[from] && *cost >= *next[from])
            break; // more layers cost no less
          else if (cost && best[to]) {
            int64_t largest = std::max(*cost, *best[to]);
            next[from] = next[from] ? std::min(*next[from], largest) : largest;
          }
      best.swap(next);
    }
    return best[0];
  }

  // Returns the most even division without a stage above `most`, which exists.
  std::vector<int64_t> mostEven(int64_t most) const {
    struct Best {
      Squares squares = 0;
      int64_t count = -1; // layers of this stage; -1: there is no division
    };
    std::vector<std::vector<Best>> best(stages + 1, std::vector<Best>(layers + 1));
    best[stages][layers].count = 0;
    for (int64_t k = stages; k-- > 0;)
      for (int64_t from = 0; from <= layers; ++from)
        for (int64_t to = from; to <= layers; ++to) {
          auto cost = costOf(k, from, to);
          if (cost && *cost > most)
            break;
          if (!cost || best[k + 1][to].count < 0)
            continue;
          Squares squares = Squares(*cost) * Squares(*cost) + best[k + 1][to].squares;
          if (Best &own = best[k][from]; own.count < 0 || squares <= own.squares)
            own = {squares, to - from}; // of equal ones the last has most layers
        }
    std::vector<int64_t> counts;
    for (int64_t k = 0, from = 0; k < stages; from += counts.back(), ++k)
      counts.push_back(best[k][from].count);
    return counts;
  }

  const LayerCosts &costs;
  int64_t stages, layers;
  int64_t before, after;
  std::vector<int64_t> sums; // of the layers before each one
};

} // namespace

std::optional<std::vector<int64_t>> balance(const LayerCosts &costs, int64_t stages) {
  return Balancer(costs, stages).run();
}

} // namespace llmc::stages
