#include "lib/planfile/CheckWalk.h"

#include <algorithm>
#include <deque>
#include <unordered_map>

namespace llmc::planfile {
namespace {

// Plays the launches of all ranks with the least freedom: queues run in order, a
// communication holds its queue until every member has reached it, a wait until
// its record has run. Nothing here depends on timing, so one play decides: if it
// ends, no interleaving hangs; if it stops, every run does, and following "who
// waits for whom" from any held queue ends in a cycle of the launch orders.
//
// Two plays, with different queues:
//  - one queue per stream, all instructions: messages are rendezvous, so a send
//    that must be buffered to get further is refused;
//  - one queue per rank, collectives only: communicators share the device, and
//    collectives that two ranks issue in different order can starve each other
//    even from different streams.
// Members of a stage's own groups (data, tensor) run one stream and agree; only
// communications that span stages can form a cycle.
class Play {
public:
  Play(const Trace &trace, bool collectivesOnly) : trace(trace) {
    size_t queueCount = collectivesOnly ? trace.program.stages.size() : trace.streamBase.back();
    queues.resize(queueCount);
    queueOf.assign(trace.nodes.size(), -1);
    executed.assign(trace.nodes.size(), false);
    for (uint32_t n = 0; n < trace.nodes.size(); ++n) {
      const Node &node = trace.nodes[n];
      if (collectivesOnly && node.type != Body::Collective)
        continue;
      queueOf[n] = collectivesOnly ? node.stage : node.stream;
      queues[queueOf[n]].push_back(n);
    }
    heads.assign(queueCount, 0);
  }

  // Nodes of the cycle, each held up by the next; empty if the play ends.
  std::vector<uint32_t> findCycle() {
    std::deque<uint32_t> work;
    for (uint32_t q = 0; q < queues.size(); ++q)
      work.push_back(q);
    while (!work.empty()) {
      uint32_t q = work.front();
      work.pop_front();
      advance(q, work);
    }
    for (uint32_t q = 0; q < queues.size(); ++q)
      if (heads[q] < queues[q].size())
        return followFrom(q);
    return {};
  }

private:
  bool atHead(uint32_t n) const {
    int64_t q = queueOf[n];
    return heads[q] < queues[q].size() && queues[q][heads[q]] == n;
  }

  // All nodes that run together with `n`.
  std::vector<uint32_t> partners(uint32_t n) const {
    const Node &node = trace.nodes[n];
    if (node.join >= 0)
      return trace.joins[node.join];
    if (node.partner >= 0)
      return {n, static_cast<uint32_t>(node.partner)};
    return {n};
  }

  // What keeps the head `n` from running: a node not yet executed, or -1.
  int64_t blocker(uint32_t n) const {
    int64_t record = trace.nodes[n].record;
    if (record >= 0 && queueOf[record] >= 0 && !executed[record])
      return record;
    for (uint32_t p : partners(n))
      if (!atHead(p))
        return p;
    return -1;
  }

  void advance(uint32_t q, std::deque<uint32_t> &work) {
    while (heads[q] < queues[q].size()) {
      uint32_t n = queues[q][heads[q]];
      int64_t held = blocker(n);
      if (held >= 0) {
        // A held communication runs when its last member arrives; a wait looks again
        // when its record has run.
        waiters[held].push_back(q);
        return;
      }
      for (uint32_t p : partners(n)) {
        executed[p] = true;
        uint32_t queue = queueOf[p];
        ++heads[queue];
        if (queue != q)
          work.push_back(queue);
        wake(p, work);
      }
    }
  }

  void wake(uint32_t n, std::deque<uint32_t> &work) {
    auto it = waiters.find(n);
    if (it == waiters.end())
      return;
    work.insert(work.end(), it->second.begin(), it->second.end());
    waiters.erase(it);
  }

  std::vector<uint32_t> followFrom(uint32_t queue) const {
    std::vector<uint32_t> path;
    std::vector<int64_t> position(queues.size(), -1);
    while (position[queue] < 0) {
      position[queue] = static_cast<int64_t>(path.size());
      uint32_t n = queues[queue][heads[queue]];
      path.push_back(n);
      queue = queueOf[blocker(n)];
    }
    path.erase(path.begin(), path.begin() + position[queue]);
    return path;
  }

  const Trace &trace;
  std::vector<std::vector<uint32_t>> queues;
  std::vector<size_t> heads;
  std::vector<int64_t> queueOf;
  std::vector<bool> executed;
  std::unordered_map<int64_t, std::vector<uint32_t>> waiters; // node -> held queues
};

void report(const Trace &trace, const std::vector<uint32_t> &cycle, const char *what,
            const char *fix, Findings &findings) {
  if (cycle.empty())
    return;
  std::string text = what;
  for (size_t i = 0; i < cycle.size(); ++i)
    text += (i ? "; which waits for " : " ") + trace.describe(trace.nodes[cycle[i]]);
  text += "; which waits for the first";
  findings.add(trace.at(trace.nodes[cycle[0]], std::move(text), fix));
}

} // namespace

std::vector<Finding> checkLaunchOrder(const ProgramT &program) {
  Findings findings("launch-order");
  Trace trace = buildTrace(program, 1);
  report(trace, Play(trace, /*collectivesOnly=*/true).findCycle(),
         "ranks issue collectives in orders that form a cycle:",
         "issue the collectives in one global order on every stage", findings);
  report(trace, Play(trace, /*collectivesOnly=*/false).findCycle(),
         "communications that block their streams wait for each other in a cycle:",
         "issue sends and receives on streams of their own, in the order in which both ends can "
         "reach them",
         findings);
  return findings.take();
}

} // namespace llmc::planfile
