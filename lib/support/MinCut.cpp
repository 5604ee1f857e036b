// Implements Dinic's algorithm: saturates all shortest augmenting paths, one length at a time.
#include "lib/support/MinCut.h"

#include <algorithm>

using namespace llmc::support;

unsigned MinCut::addNode() {
  edgesOf.emplace_back();
  return edgesOf.size() - 1;
}

void MinCut::addEdge(unsigned from, unsigned to, int64_t cost) {
  edgesOf[from].push_back(edges.size());
  edges.push_back({to, cost});
  edgesOf[to].push_back(edges.size());
  edges.push_back({from, 0});
}

// Computes the distances from the source over residual edges. Returns whether the target is
// reached.
bool MinCut::findLevels() {
  level.assign(edgesOf.size(), ~0u);
  level[kSource] = 0;
  std::vector<unsigned> queue = {kSource};
  for (size_t i = 0; i < queue.size(); ++i)
    for (unsigned e : edgesOf[queue[i]])
      if (edges[e].left > 0 && level[edges[e].to] == ~0u) {
        level[edges[e].to] = level[queue[i]] + 1;
        queue.push_back(edges[e].to);
      }
  return level[kTarget] != ~0u;
}

// Extends `path` by one edge, or drops its last edge where no edge leads on. Returns false if no
// path is left.
bool MinCut::advance(std::vector<unsigned> &path) {
  unsigned node = path.empty() ? kSource : edges[path.back()].to;
  for (unsigned &i = next[node]; i < edgesOf[node].size(); ++i) {
    unsigned e = edgesOf[node][i];
    if (edges[e].left > 0 && level[edges[e].to] == level[node] + 1) {
      path.push_back(e);
      return true;
    }
  }
  if (path.empty())
    return false;
  path.pop_back();
  ++next[path.empty() ? kSource : edges[path.back()].to];
  return true;
}

// Saturates every shortest path (a blocking flow).
void MinCut::saturate() {
  next.assign(edgesOf.size(), 0);
  std::vector<unsigned> path;
  while (advance(path)) {
    if (path.empty() || edges[path.back()].to != kTarget)
      continue;
    int64_t flow = kUncuttable;
    for (unsigned e : path)
      flow = std::min(flow, edges[e].left);
    for (unsigned e : path) {
      edges[e].left -= flow;
      edges[e ^ 1].left += flow;
    }
    path.clear();
  }
}

std::vector<bool> MinCut::solve() {
  while (findLevels())
    saturate();
  // The target's side has only the nodes that still reach the target.
  std::vector<bool> side(edgesOf.size(), true);
  side[kTarget] = false;
  std::vector<unsigned> queue = {kTarget};
  for (size_t i = 0; i < queue.size(); ++i)
    for (unsigned e : edgesOf[queue[i]])
      if (unsigned from = edges[e].to; edges[e ^ 1].left > 0 && side[from]) {
        side[from] = false;
        queue.push_back(from);
      }
  return side;
}
