// The cheapest way to separate a source from a target in a directed graph.
#ifndef LLMC_PASSES_PARTITION_SINKREDUCTIONS_MINCUT_H
#define LLMC_PASSES_PARTITION_SINKREDUCTIONS_MINCUT_H

#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/SmallVector.h"
#include <cstdint>
#include <vector>

namespace llmc {

class MinCut {
public:
  static constexpr unsigned kSource = 0, kTarget = 1;
  // What no cut may cost; all other costs together are less.
  static constexpr int64_t kNever = int64_t(1) << 61;

  MinCut() : edgesOf(2) {}
  unsigned addNode();
  // Costs `cost` if `from` ends on the source's side and `to` on the target's.
  void addEdge(unsigned from, unsigned to, int64_t cost);
  // The source's side of a cheapest cut; of several, the one as far from the source
  // as there is. Consumes the costs.
  llvm::BitVector solve();

private:
  struct Edge {
    unsigned to;
    int64_t left; // what may still flow; the edge i ^ 1 leads back
  };
  bool findLevels();
  void saturate();
  bool advance(std::vector<unsigned> &path);

  std::vector<Edge> edges;
  std::vector<llvm::SmallVector<unsigned, 4>> edgesOf; // of a node
  std::vector<unsigned> level, next;                   // of a node, of one phase
};

} // namespace llmc

#endif // LLMC_PASSES_PARTITION_SINKREDUCTIONS_MINCUT_H
