// Builds edges for streams, events, messages and collectives, and sorts them topologically.
#include "lib/verify/mutation/OrderGraph.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

namespace llmc::verify {

using namespace planfile;

namespace {

using Edges = std::vector<std::vector<uint32_t>>; // predecessors by vertex

// Returns the vertices in topological order, lower steps first; fewer than there are if the graph
// has a cycle.
std::vector<uint32_t> sorted(const Edges &before, const std::vector<uint32_t> &stepOf) {
  size_t count = before.size();
  std::vector<uint32_t> left(count), order;
  Edges after(count);
  for (uint32_t v = 0; v < count; ++v) {
    left[v] = static_cast<uint32_t>(before[v].size());
    for (uint32_t p : before[v])
      after[p].push_back(v);
  }
  uint32_t last = count ? *std::max_element(stepOf.begin(), stepOf.end()) : 0;
  std::vector<std::vector<uint32_t>> ready(last + 1); // by step
  for (uint32_t v = 0; v < count; ++v)
    if (left[v] == 0)
      ready[stepOf[v]].push_back(v);
  for (uint32_t step = 0; step <= last; ++step)
    while (!ready[step].empty()) {
      uint32_t v = ready[step].back();
      ready[step].pop_back();
      order.push_back(v);
      for (uint32_t n : after[v])
        if (--left[n] == 0)
          ready[std::max(step, stepOf[n])].push_back(n);
    }
  return order;
}

} // namespace

// Distributes the instructions of all ranks over their streams and joins messages and
// collectives.
struct OrderGraph::Builder {
  OrderGraph &graph;
  const ProgramT &program;
  // Holds the end of a stream: its last group of messages, or its last other instruction, and
  // what had ended before that.
  struct Tail {
    std::vector<Vertex> before, ends;
  };
  using Channel = std::tuple<uint32_t, uint32_t, uint32_t>; // source, destination, number
  std::map<Channel, std::pair<std::vector<uint32_t>, std::vector<uint32_t>>> messages;
  using Club = std::tuple<std::vector<uint32_t>, uint32_t>; // ranks, stream
  std::map<Club, std::map<uint32_t, std::vector<uint32_t>>> calls; // by rank
  std::vector<std::vector<std::vector<uint32_t>>> elements; // communications, by rank

  Builder(OrderGraph &graph, const ProgramT &program)
      : graph(graph), program(program), elements(graph.ranks) {}

  void addRank(uint32_t rank, unsigned steps) {
    const StageT &stage = *program.stages[stageOf(program, rank)];
    std::map<uint32_t, Tail> tails; // by stream
    std::map<std::tuple<uint32_t, uint32_t, uint32_t>, uint32_t> records;
    for (uint32_t step = 0; step < steps; ++step)
      for (const auto &entry : stage.table) {
        const InstructionT *last = nullptr;
        for (const auto &inst : stage.procedures[entry->procedure]->instructions) {
          auto n = static_cast<uint32_t>(graph.all.size());
          graph.all.push_back({inst.get(), entry.get(), rank, step, -1});
          graph.before.resize(2 * n + 2);
          std::optional<Message> message = messageOf(*inst);
          bool joins = message && message->grouped && last && messageOf(*last);
          addToStream(n, tails[inst->stream], joins);
          events(n, records);
          communicate(n, message, joins);
          last = inst.get();
        }
      }
  }

  void addToStream(uint32_t n, Tail &tail, bool joins) {
    if (!joins) {
      tail.before = std::move(tail.ends);
      tail.ends.clear();
    }
    graph.before[2 * n] = tail.before;
    graph.before[2 * n + 1] = {2 * n};
    tail.ends.push_back(2 * n + 1);
  }

  // Adds the edge from the latest record issued before a wait, of its event and slot.
  void events(uint32_t n, std::map<std::tuple<uint32_t, uint32_t, uint32_t>, uint32_t> &records) {
    const Execution &at = graph.all[n];
    auto key = [&](const auto &event) {
      SlotRef slot = slotOf(*at.entry, event.lane);
      return event.whole_step ? std::tuple(event.event, ~0u, 0u)
                              : std::tuple(event.event, slot.pool(), slot.slot());
    };
    if (const RecordT *record = at.instruction->body.AsRecord())
      records[key(*record)] = n;
    if (const WaitT *wait = at.instruction->body.AsWait())
      if (auto found = records.find(key(*wait)); found != records.end())
        graph.before[2 * n + 1].push_back(2 * found->second + 1);
  }

  void communicate(uint32_t n, const std::optional<Message> &message, bool joins) {
    const Execution &at = graph.all[n];
    const CollectiveT *collective = at.instruction->body.AsCollective();
    if (!message && !collective)
      return;
    auto &list = elements[at.rank];
    if (joins && !list.empty())
      list.back().push_back(n);
    else
      list.push_back({n});
    if (collective) {
      calls[{groupOf(*program.mesh, *collective, at.rank), at.instruction->stream}][at.rank]
          .push_back(n);
      return;
    }
    std::optional<uint32_t> peer = peerOf(at.rank, *message);
    if (!peer)
      graph.why = "a message goes beyond the mesh";
    else if (message->sends)
      messages[{at.rank, *peer, message->channel}].first.push_back(n);
    else
      messages[{*peer, at.rank, message->channel}].second.push_back(n);
  }

  std::optional<uint32_t> peerOf(uint32_t rank, const Message &message) const {
    std::vector<uint32_t> coordinate = coordinateOf(*program.mesh, rank);
    int64_t size = program.mesh->axes[message.axis]->size;
    int64_t to = int64_t(coordinate[message.axis]) + message.delta;
    if (message.wrap)
      to = (to % size + size) % size;
    if (to < 0 || to >= size)
      return std::nullopt;
    coordinate[message.axis] = static_cast<uint32_t>(to);
    return rankOf(*program.mesh, coordinate);
  }

  static std::vector<uint64_t> sizesOf(const InstructionT &inst) {
    std::vector<uint64_t> sizes;
    for (const auto &part : *messageOf(inst)->parts)
      sizes.push_back(part->size);
    return sizes;
  }

  // Matches sends and receives of a channel in order. Adds to `meets` what else delays a send: it
  // occupies its stream until the message is received.
  void joinMessages(std::vector<std::pair<Vertex, Vertex>> &meets) {
    for (const auto &[channel, both] : messages) {
      const auto &[sends, receives] = both;
      if (sends.size() != receives.size()) {
        graph.why = "a message is sent or received alone";
        return;
      }
      for (size_t i = 0; i < sends.size(); ++i) {
        uint32_t s = sends[i], r = receives[i];
        if (sizesOf(*graph.all[s].instruction) != sizesOf(*graph.all[r].instruction))
          graph.why = "the two ends of a message differ in size";
        graph.all[r].partner = s;
        graph.all[s].partner = r;
        graph.before[2 * r + 1].push_back(2 * s + 1); // The message was read before it is received.
        meets.push_back({2 * r, 2 * s + 1});
      }
    }
  }

  static bool same(const CollectiveT &a, const CollectiveT &b) {
    return a.kind == b.kind && a.reduce == b.reduce && a.dtype == b.dtype && a.count == b.count;
  }

  void joinCollectives() {
    for (const auto &[club, byRank] : calls) {
      const std::vector<uint32_t> &group = std::get<0>(club);
      size_t count = byRank.begin()->second.size();
      for (uint32_t rank : group)
        if (auto found = byRank.find(rank); found == byRank.end() || found->second.size() != count)
          graph.why = "a collective lacks a member";
      if (!graph.why.empty())
        return;
      for (size_t i = 0; i < count; ++i) {
        std::vector<uint32_t> members;
        for (uint32_t rank : group)
          members.push_back(byRank.at(rank)[i]);
        meet(std::move(members));
      }
    }
  }

  void meet(std::vector<uint32_t> members) {
    const CollectiveT &first = *graph.all[members[0]].instruction->body.AsCollective();
    bool broadcast = first.kind == CollectiveKind::Broadcast;
    auto middle = static_cast<Vertex>(graph.before.size());
    graph.before.emplace_back();
    for (uint32_t m : members) {
      if (!same(first, *graph.all[m].instruction->body.AsCollective()))
        graph.why = "members of a collective do different things";
      graph.all[m].partner = static_cast<int64_t>(graph.met.size());
      // In a broadcast, each receiver waits for the root alone, and the root for none.
      if (!broadcast || m == members[0])
        graph.before[middle].push_back(2 * m);
      if (!broadcast || m != members[0])
        graph.before[2 * m + 1].push_back(middle);
    }
    graph.met.push_back(std::move(members));
  }

  // Returns whether the run ends if the communications of each rank, which share its device, run
  // one by one in issue order, whatever their streams.
  bool oneByOneEnds() const {
    Edges edges(graph.before.size());
    for (const auto &list : elements) {
      std::vector<Vertex> ends;
      for (const auto &element : list) {
        std::vector<Vertex> now;
        for (uint32_t n : element) {
          edges[2 * n].insert(edges[2 * n].end(), ends.begin(), ends.end());
          edges[2 * n + 1].push_back(2 * n);
          const Execution &at = graph.all[n];
          if (at.instruction->body.AsCollective()) {
            for (uint32_t m : graph.met[at.partner])
              edges[2 * n + 1].push_back(2 * m);
          } else {
            edges[2 * n + 1].push_back(2 * static_cast<Vertex>(at.partner));
          }
          now.push_back(2 * n + 1);
        }
        ends = std::move(now);
      }
    }
    return sorted(edges, graph.stepOf).size() == edges.size();
  }
};

OrderGraph::OrderGraph(const ProgramT &program, unsigned steps)
    : ranks(rankCount(*program.mesh)) {
  Builder builder(*this, program);
  for (uint32_t rank = 0; rank < ranks; ++rank)
    builder.addRank(rank, steps);
  std::vector<std::pair<Vertex, Vertex>> meets;
  builder.joinMessages(meets);
  if (why.empty())
    builder.joinCollectives();
  if (!why.empty())
    return;
  stepOf.assign(before.size(), 0);
  for (Vertex v = 0; v < before.size(); ++v)
    stepOf[v] = v < 2 * all.size() ? all[v / 2].step : all[before[v].front() / 2].step;
  order = sorted(before, stepOf);
  Edges blocking = before;
  for (auto [from, to] : meets)
    blocking[to].push_back(from);
  if (order.size() < before.size() || sorted(blocking, stepOf).size() < before.size())
    why = "streams wait for each other";
  else if (!builder.oneByOneEnds())
    why = "communications that share a device wait for each other";
}

int64_t
OrderGraph::firstUnordered(const std::vector<std::pair<uint32_t, uint32_t>> &pairs) const {
  std::vector<std::vector<uint32_t>> byRank(ranks); // indices of `pairs`
  for (uint32_t i = 0; i < pairs.size(); ++i)
    byRank[all[pairs[i].first].rank].push_back(i);
  std::vector<uint32_t> number(all.size()); // index among those of its rank
  std::vector<uint32_t> counts(ranks, 0);
  for (uint32_t n = 0; n < all.size(); ++n)
    number[n] = counts[all[n].rank]++;
  int64_t first = -1;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    if (byRank[rank].empty())
      continue;
    // Compute, for each vertex, which executions of this rank ended before it.
    size_t words = (counts[rank] + 63) / 64;
    std::vector<uint64_t> ended(before.size() * words, 0);
    for (Vertex v : order) {
      uint64_t *to = &ended[v * words];
      for (Vertex p : before[v]) {
        const uint64_t *from = &ended[p * words];
        for (size_t w = 0; w < words; ++w)
          to[w] |= from[w];
        if (p < 2 * all.size() && p % 2 && all[p / 2].rank == rank)
          to[number[p / 2] / 64] |= uint64_t(1) << (number[p / 2] % 64);
      }
    }
    for (uint32_t i : byRank[rank]) {
      auto [a, b] = pairs[i];
      // A member of a collective accesses its bytes as soon as it begins, a receive only when the
      // message arrives.
      Vertex from = all[b].instruction->body.AsCollective() ? 2 * b : 2 * b + 1;
      bool ordered = ended[from * words + number[a] / 64] >> (number[a] % 64) & 1;
      if (!ordered && (first < 0 || i < first))
        first = i;
    }
  }
  return first;
}

} // namespace llmc::verify
