// A cheapest cut costs what the cheapest of all subsets does; of several it is the largest.
#include "lib/support/MinCut.h"

#include <gtest/gtest.h>
#include <random>

using llmc::support::MinCut;

namespace {

struct Edge {
  unsigned from, to;
  int64_t cost;
};

int64_t costOf(const std::vector<Edge> &edges, unsigned side) {
  int64_t cost = 0;
  for (const Edge &edge : edges)
    if ((side >> edge.from & 1) && !(side >> edge.to & 1))
      cost += edge.cost;
  return cost;
}

// The union of all cheapest sides that hold the source and not the target (is one as well).
unsigned bruteForce(const std::vector<Edge> &edges, unsigned nodes) {
  unsigned best = 1;
  for (unsigned side = 1; side < 1u << nodes; side += 4)
    if (costOf(edges, side) < costOf(edges, best))
      best = side;
  for (unsigned side = 1, least = best; side < 1u << nodes; side += 4)
    if (costOf(edges, side) == costOf(edges, least))
      best |= side;
  return best;
}

} // namespace

TEST(MinCut, ACutIsACheapestOneAndAsLateAsCanBe) {
  std::mt19937 random(7);
  for (int round = 0; round < 400; ++round) {
    unsigned nodes = 2 + random() % 8;
    MinCut cut;
    for (unsigned i = 2; i < nodes; ++i)
      cut.addNode();
    std::vector<Edge> edges;
    for (unsigned i = random() % (3 * nodes); i > 0; --i) {
      Edge edge = {unsigned(random() % nodes), unsigned(random() % nodes), int64_t(random() % 4)};
      if (edge.cost == 3)
        edge.cost = 1000; // never, if there is a way around it
      edges.push_back(edge);
      cut.addEdge(edge.from, edge.to, edge.cost);
    }
    unsigned side = 0;
    std::vector<bool> got = cut.solve();
    for (unsigned i = 0; i < got.size(); ++i)
      side |= unsigned(got[i]) << i;
    EXPECT_TRUE(side == bruteForce(edges, nodes));
  }
}

TEST(MinCut, ALongChainIsCutAtItsLastNarrowestPlace) {
  MinCut cut;
  std::vector<unsigned> chain = {MinCut::kSource};
  for (int i = 0; i < 200000; ++i) {
    chain.push_back(cut.addNode());
    cut.addEdge(chain[i], chain[i + 1], i % 1000 == 7 ? 1 : 2);
  }
  cut.addEdge(chain.back(), MinCut::kTarget, MinCut::kUncuttable);
  std::vector<bool> side = cut.solve();
  EXPECT_TRUE(side[chain[199007]] && !side[chain[199008]]);
}
