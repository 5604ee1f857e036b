// Finds choices as minimum cuts. A value has two nodes, an op one; what ends on the target's side is
// made again (made, op) or there to be read (read):
//
// source --never--> made(v)   no op may compute v again
// source --price--> op        the op runs again
// op     --never--> made(v)   for its results
// read(u) --never--> op       for its operands
// made(v) --bytes--> read(v)  v is kept
// read(v) --never--> target   v is needed
//
// The lowest price within a number of bytes is no cut. Its Lagrangian relaxation is one, where a byte
// costs `rate` FLOPs; a branch and bound over what is made again closes the gap (Fisher, "The
// Lagrangian relaxation method for solving integer programming problems", 1981).
#include "passes/5-schedule/Recompute/KeptSet.h"

#include "lib/support/MinCut.h"

#include <algorithm>
#include <cmath>
#include <queue>

namespace llmc {
using support::MinCut;
namespace {

// Tells what a branch of the search has decided about a value.
enum class Decision : uint8_t { Open, NotMade, Made };
using Decisions = std::vector<Decision>;

// Weighs prices against bytes, in whole units of a cut.
struct Weights {
  double ofPrice = 0, ofByte = 1;
};

struct Cut {
  KeptSet set;
  std::vector<bool> made; // of each value
};

int64_t units(double cost) { return std::llround(std::min(cost, 0x1p60)); }

Cut solveCut(const KeptSetProblem &problem, const Decisions &decisions, Weights weights) {
  MinCut cut;
  std::vector<bool> hasOp(problem.values.size());
  std::vector<unsigned> made, read;
  for (const KeptSetProblem::Value &value : problem.values) {
    made.push_back(cut.addNode());
    read.push_back(cut.addNode());
    cut.addEdge(made.back(), read.back(), units(double(value.bytes) * weights.ofByte));
    if (value.needed)
      cut.addEdge(read.back(), MinCut::kTarget, MinCut::kUncuttable);
  }
  for (const KeptSetProblem::Op &op : problem.ops) {
    if (!op.mayRedo)
      continue;
    unsigned node = cut.addNode();
    if (int64_t price = units(op.price * weights.ofPrice))
      cut.addEdge(MinCut::kSource, node, price);
    for (unsigned operand : op.operands)
      cut.addEdge(read[operand], node, MinCut::kUncuttable);
    for (unsigned result : op.results) {
      hasOp[result] = true;
      cut.addEdge(node, made[result], MinCut::kUncuttable);
    }
  }
  for (size_t v = 0; v < problem.values.size(); ++v) {
    if (!hasOp[v] || (!decisions.empty() && decisions[v] == Decision::NotMade))
      cut.addEdge(MinCut::kSource, made[v], MinCut::kUncuttable);
    else if (!decisions.empty() && decisions[v] == Decision::Made)
      cut.addEdge(made[v], MinCut::kTarget, MinCut::kUncuttable);
  }
  std::vector<bool> side = cut.solve();
  Cut found;
  std::vector<bool> kept;
  for (size_t v = 0; v < problem.values.size(); ++v) {
    kept.push_back(side[made[v]] && !side[read[v]]);
    found.made.push_back(!side[made[v]]);
  }
  found.set = priced(problem, std::move(kept)).value_or(KeptSet());
  return found;
}

// Searches for the lowest price within a number of bytes.
class Search {
public:
  Search(const KeptSetProblem &problem, int64_t bytes) : problem(problem), bytes(bytes) {
    double price = 0, all = 0;
    for (const KeptSetProblem::Op &op : problem.ops)
      price += op.mayRedo ? op.price : 0;
    for (const KeptSetProblem::Value &value : problem.values)
      all += double(value.bytes);
    perPrice = kUnits / std::max(price, 1.0);
    perByte = kUnits / std::max(all, 1.0);
  }

  std::optional<KeptSet> run() {
    visit(Decisions(problem.values.size(), Decision::Open));
    while (!open.empty() && cuts < kMostCuts) {
      Branch branch = open.top();
      open.pop();
      if (!isWorth(branch.bound))
        break; // The others are worth no more.
      for (Decision decision : {Decision::NotMade, Decision::Made}) {
        Decisions decisions = branch.decisions;
        decisions[branch.value] = decision;
        visit(std::move(decisions));
      }
    }
    return best;
  }

private:
  static constexpr double kUnits = 0x1p50;   // all prices, or all bytes, at their own weight
  static constexpr double kWithin = 1.005;   // of the lowest price: half of what is promised
  static constexpr unsigned kMostCuts = 4000;

  struct Branch {
    double bound; // no choice within the decisions costs less
    unsigned value;
    Decisions decisions;
    bool operator<(const Branch &other) const { return bound > other.bound; }
  };

  bool isWorth(double bound) const { return !best || best->price > bound * kWithin; }

  // Solves the relaxation in which a byte costs `rate` FLOPs.
  Cut relax(const Decisions &decisions, double rate) {
    ++cuts;
    // Keeps the greater weight at its scale, so that whole units stay fine.
    double byte = perPrice * rate, scale = byte > perByte ? perByte / byte : 1;
    return solveCut(problem, decisions, {perPrice * scale, byte * scale});
  }

  void offer(const Cut &cut) {
    if (cut.set.bytes <= bytes && (!best || cut.set.price < best->price))
      best = cut.set;
  }

  // Bounds the price within the decisions, and keeps what is left to decide.
  void visit(Decisions decisions) {
    ++cuts;
    Cut small = solveCut(problem, decisions, {0, perByte});
    if (small.set.kept.empty() || small.set.bytes > bytes)
      return;
    offer(small);
    // Weighs bytes so little that they decide between equal prices alone.
    Cut large = relax(decisions, perByte / perPrice * 1e-9);
    offer(large);
    if (large.set.bytes <= bytes)
      return;
    // Follows the lower hull of (bytes, price) to the edge that spans the limit.
    double bound = large.set.price;
    while (cuts < kMostCuts) {
      double rate = (small.set.price - large.set.price) / double(large.set.bytes - small.set.bytes);
      bound = large.set.price + rate * double(large.set.bytes - bytes);
      if (rate <= 0)
        break;
      Cut middle = relax(decisions, rate);
      offer(middle);
      double gain = large.set.price + rate * double(large.set.bytes) -
                    (middle.set.price + rate * double(middle.set.bytes));
      bound -= std::max(gain, 0.0);
      if (gain <= 1e-6 * (1 + large.set.price) || middle.set.bytes == large.set.bytes ||
          middle.set.bytes == small.set.bytes)
        break;
      (middle.set.bytes <= bytes ? small : large) = middle;
    }
    if (isWorth(bound))
      split(std::move(decisions), bound, small, large);
  }

  // Leaves open the largest of the values that the two ends of the edge treat differently.
  void split(Decisions decisions, double bound, const Cut &small, const Cut &large) {
    std::optional<unsigned> widest;
    for (unsigned v = 0; v < problem.values.size(); ++v)
      if (decisions[v] == Decision::Open && small.made[v] != large.made[v] &&
          (!widest || problem.values[v].bytes > problem.values[*widest].bytes))
        widest = v;
    if (widest)
      open.push({bound, *widest, std::move(decisions)});
  }

  const KeptSetProblem &problem;
  int64_t bytes;
  double perPrice, perByte; // units
  unsigned cuts = 0;
  std::optional<KeptSet> best;
  std::priority_queue<Branch> open;
};

} // namespace

std::optional<KeptSet> priced(const KeptSetProblem &problem, std::vector<bool> kept) {
  KeptSet set{std::move(kept)};
  std::vector<bool> wanted;
  for (size_t v = 0; v < problem.values.size(); ++v) {
    wanted.push_back(problem.values[v].needed && !set.kept[v]);
    set.bytes += set.kept[v] ? problem.values[v].bytes : 0;
  }
  for (size_t i = problem.ops.size(); i > 0; --i) {
    const KeptSetProblem::Op &op = problem.ops[i - 1];
    auto isWanted = [&](unsigned result) { return wanted[result]; };
    if (!op.mayRedo || std::none_of(op.results.begin(), op.results.end(), isWanted))
      continue;
    set.price += op.price;
    for (unsigned result : op.results)
      wanted[result] = false;
    for (unsigned operand : op.operands)
      wanted[operand] = wanted[operand] || !set.kept[operand];
  }
  if (std::find(wanted.begin(), wanted.end(), true) != wanted.end())
    return std::nullopt;
  return set;
}

KeptSet keepFewestBytes(const KeptSetProblem &problem) {
  return solveCut(problem, {}, Weights()).set;
}

std::optional<KeptSet> keepCheapest(const KeptSetProblem &problem, int64_t bytes) {
  return Search(problem, bytes).run();
}

} // namespace llmc
