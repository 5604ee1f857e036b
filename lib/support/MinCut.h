// Computes minimum cuts of directed graphs. Test: test/runtime/MinCutTest.cpp.
#ifndef LLMC_LIB_SUPPORT_MINCUT_H
#define LLMC_LIB_SUPPORT_MINCUT_H

#include <cstdint>
#include <vector>

namespace llmc::support {

// Separates a source from a target at minimum cost, by Dinic's algorithm.
class MinCut {
public:
  static constexpr unsigned kSource = 0, kTarget = 1;
  // Forbids an edge to be cut: greater than the sum of all other costs.
  static constexpr int64_t kUncuttable = int64_t(1) << 61;

  MinCut() : edgesOf(2) {}
  // Returns the number of a new node.
  unsigned addNode();
  // Adds an edge that costs `cost` if `from` ends on the source's side and `to` on the target's.
  void addEdge(unsigned from, unsigned to, int64_t cost);
  // Returns the nodes on the source's side of a minimum cut; of several such cuts, the largest
  // side. Consumes the costs, so it may run once.
  std::vector<bool> solve();

private:
  struct Edge {
    unsigned to;
    int64_t left; // residual capacity; edge i ^ 1 is the reverse edge
  };
  bool findLevels();
  void saturate();
  bool advance(std::vector<unsigned> &path);

  std::vector<Edge> edges;
  std::vector<std::vector<unsigned>> edgesOf; // of a node
  std::vector<unsigned> level, next;                   // of a node: BFS distance, next edge
};

} // namespace llmc::support

#endif // LLMC_LIB_SUPPORT_MINCUT_H
