#include "lib/planfile/Trace.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <unordered_map>

namespace llmc::planfile {
namespace {

// Simulates the launches of all ranks with the least freedom: queues run in order, a
// communication blocks its queue until every member has reached it, a wait until its record has
// run. The messages of a group are one element of their queue: each ends when its partner is in
// the element at the head of its own queue, and the element leaves when all have ended. Nothing
// here depends on timing, so one simulation decides: if it ends, no interleaving deadlocks; if it
// stops, every run does, and following the waits-for edges from any blocked queue ends in a cycle
// of the launch orders.
//
// There are two simulations, with different queues. PerStream has one queue per stream with all
// instructions: messages are rendezvous, so that a send that must be buffered to make progress is
// refused. PerRank has one queue per rank with all communications in the order in which the host
// issues them: they share the device, and what two ranks issue in different order can starve each
// other even from different streams.
//
// Members of a stage's own groups (data, tensor) run one stream and agree; only communications
// that span stages can form a cycle.
class LaunchSimulation {
public:
  enum Queues { PerStream, PerRank };

  LaunchSimulation(const Trace &trace, Queues kind) : trace(trace) {
    size_t count = kind == PerRank ? trace.program.stages.size() : trace.streamBase.back();
    queues.resize(count);
    queueOf.assign(trace.nodes.size(), -1);
    placeOf.assign(trace.nodes.size(), 0);
    executed.assign(trace.nodes.size(), false);
    for (uint32_t n = 0; n < trace.nodes.size(); ++n) {
      const Node &node = trace.nodes[n];
      if (kind == PerRank && node.type != Body::Collective && node.group < 0)
        continue;
      queueOf[n] = kind == PerRank ? node.stage : node.stream;
      placeOf[n] = queues[queueOf[n]].size();
      queues[queueOf[n]].push_back(n);
    }
    heads.assign(count, 0);
    headEnds.assign(count, 0);
    inWork.assign(count, false);
    for (uint32_t q = 0; q < count; ++q)
      headEnds[q] = endOfElement(q);
  }

  // Returns the nodes of a cycle, each blocked by the next; empty if the simulation ends.
  std::vector<uint32_t> findCycle() {
    for (uint32_t q = 0; q < queues.size(); ++q)
      lookAgain(q);
    while (!work.empty()) {
      uint32_t q = work.front();
      work.pop_front();
      inWork[q] = false;
      advance(q);
    }
    for (uint32_t q = 0; q < queues.size(); ++q)
      if (heads[q] < queues[q].size())
        return followFrom(q);
    return {};
  }

private:
  // Returns one past the element that begins at the head.
  size_t endOfElement(uint32_t q) const {
    const std::vector<uint32_t> &queue = queues[q];
    size_t end = heads[q];
    if (end == queue.size())
      return end;
    int64_t group = trace.nodes[queue[end]].group;
    do
      ++end;
    while (group >= 0 && end < queue.size() && trace.nodes[queue[end]].group == group);
    return end;
  }

  bool atHead(uint32_t n) const {
    int64_t q = queueOf[n];
    return heads[q] <= placeOf[n] && placeOf[n] < headEnds[q];
  }

  // Returns all nodes that run together with `n`.
  std::vector<uint32_t> partners(uint32_t n) const {
    const Node &node = trace.nodes[n];
    if (node.join >= 0)
      return trace.joins[node.join];
    if (node.partner >= 0)
      return {n, static_cast<uint32_t>(node.partner)};
    return {n};
  }

  // Returns the node, not yet executed, that blocks `n` at the head; -1 if none.
  int64_t blocker(uint32_t n) const {
    int64_t record = trace.nodes[n].record;
    if (record >= 0 && queueOf[record] >= 0 && !executed[record])
      return record;
    for (uint32_t p : partners(n))
      if (!atHead(p))
        return p;
    return -1;
  }

  void lookAgain(uint32_t q) {
    if (inWork[q])
      return;
    inWork[q] = true;
    work.push_back(q);
  }

  void advance(uint32_t q) {
    while (heads[q] < queues[q].size()) {
      bool held = false;
      for (size_t i = heads[q]; i < headEnds[q]; ++i) {
        uint32_t n = queues[q][i];
        if (executed[n])
          continue;
        int64_t by = blocker(n);
        if (by >= 0) {
          // Registers the queue: a blocked communication runs when its last member arrives, and a
          // wait is checked again when its record has run.
          std::vector<uint32_t> &list = waiters[by];
          if (std::find(list.begin(), list.end(), q) == list.end())
            list.push_back(q);
          held = true;
          continue;
        }
        for (uint32_t p : partners(n))
          execute(p, q);
      }
      if (held)
        return;
      heads[q] = headEnds[q];
      headEnds[q] = endOfElement(q);
    }
  }

  void execute(uint32_t n, uint32_t by) {
    executed[n] = true;
    if (queueOf[n] != by)
      lookAgain(static_cast<uint32_t>(queueOf[n]));
    auto it = waiters.find(n);
    if (it == waiters.end())
      return;
    for (uint32_t q : it->second)
      lookAgain(q);
    waiters.erase(it);
  }

  // Returns the first node not executed in the element at the head of a stopped queue.
  uint32_t heldAt(uint32_t q) const {
    size_t i = heads[q];
    while (executed[queues[q][i]])
      ++i;
    return queues[q][i];
  }

  std::vector<uint32_t> followFrom(uint32_t queue) const {
    std::vector<uint32_t> path;
    std::vector<int64_t> position(queues.size(), -1);
    while (position[queue] < 0) {
      position[queue] = static_cast<int64_t>(path.size());
      uint32_t n = heldAt(queue);
      path.push_back(n);
      queue = static_cast<uint32_t>(queueOf[blocker(n)]);
    }
    path.erase(path.begin(), path.begin() + position[queue]);
    return path;
  }

  const Trace &trace;
  std::vector<std::vector<uint32_t>> queues;
  std::vector<size_t> heads, headEnds; // of the element at the head of each queue
  std::vector<int64_t> queueOf;
  std::vector<size_t> placeOf; // position in its queue
  std::vector<bool> executed;
  std::unordered_map<int64_t, std::vector<uint32_t>> waiters; // node -> blocked queues
  std::deque<uint32_t> work; // queues to advance, each once
  std::vector<bool> inWork;
};

// Names a message as "stage 0 send F1 to stage 1 (exchange[3])", where F or B is the phase; other
// nodes as Trace::describe() does.
std::string nameOf(const Trace &trace, const Node &node) {
  std::optional<Message> message = messageOf(*node.inst);
  if (!message || !trace.runsPerMicroBatch(node))
    return trace.describe(node);
  const StageT &stage = *trace.program.stages[node.stage];
  SlotRef at = slotOf(trace.entryOf(node), laneOf(*node.inst));
  std::string text = "stage " + std::to_string(node.stage) + (message->sends ? " send " : " receive ") +
                     (node.inst->phase == Phase::Forward ? "F" : "B") +
                     std::to_string(at.micro_batch());
  if (stage.chunks.size() > 1)
    text += " of chunk " + std::to_string(stage.pools[at.pool()]->chunk);
  return text + (message->sends ? " to stage " : " from stage ") +
         std::to_string(peerStage(trace.program, node.stage, *message)) + " (" +
         trace.procedureOf(node).name + "[" + std::to_string(node.index) + "])";
}

void report(const Trace &trace, const std::vector<uint32_t> &cycle, const char *what,
            const char *fix, Findings &findings) {
  if (cycle.empty())
    return;
  std::string text = what;
  for (size_t i = 0; i < cycle.size(); ++i)
    text += (i ? "; which waits for " : " ") + nameOf(trace, trace.nodes[cycle[i]]);
  text += "; which waits for the first";
  findings.add(trace.at(trace.nodes[cycle[0]], std::move(text), fix));
}

} // namespace

std::vector<Finding> checkLaunchOrder(const ProgramT &program) {
  Findings findings("launch-order");
  Trace trace = buildTrace(program, 1);
  report(trace, LaunchSimulation(trace, LaunchSimulation::PerRank).findCycle(),
         "ranks issue communications in orders that form a cycle:",
         "issue collectives in one global order on every stage, and each send in one group with "
         "the receive that follows it",
         findings);
  report(trace, LaunchSimulation(trace, LaunchSimulation::PerStream).findCycle(),
         "communications that block their streams wait for each other in a cycle:",
         "issue sends and receives on streams of their own, in the order in which both ends can "
         "reach them",
         findings);
  return findings.take();
}

} // namespace llmc::planfile
