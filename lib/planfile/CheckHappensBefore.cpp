#include "lib/planfile/CheckBytes.h"

#include <algorithm>
#include <memory>
#include <queue>
#include <unordered_map>
#include <utility>

namespace llmc::planfile {
namespace {

// Checks two steps: the second overwrites what the first has read, and reuses slots, buckets and
// message buffers.
constexpr unsigned kSteps = 2;

// Stands for the writer of bytes that hold a value before the first step.
constexpr uint32_t kInitialWriter = ~0u;

// Identifies an access: it is ordered before every instruction whose clock has at least
// `sequence` for `stream`.
struct AccessStamp {
  uint32_t node = kInitialWriter;
  uint32_t stream = 0, sequence = 0; // sequence is 1-based
};

// Holds the last reader of each stream. Most bytes are read from one stream only, so that its
// reader is stored inline.
class Readers {
public:
  void add(const AccessStamp &who) {
    if (first.node == kInitialWriter || first.stream == who.stream) {
      first = who;
      return;
    }
    if (!others)
      others = std::make_unique<std::vector<AccessStamp>>();
    auto same = std::find_if(others->begin(), others->end(),
                             [&](const AccessStamp &r) { return r.stream == who.stream; });
    if (same == others->end())
      others->push_back(who);
    else
      *same = who;
  }
  void clear() {
    first = AccessStamp();
    if (others)
      others->clear();
  }
  template <class Visit>
  void forEach(Visit visit) const {
    if (first.node == kInitialWriter)
      return;
    visit(first);
    if (others)
      std::for_each(others->begin(), others->end(), visit);
  }

private:
  AccessStamp first; // without a node: no reader
  std::unique_ptr<std::vector<AccessStamp>> others;
};

// Holds the state of one interval of the arena: its last writer and the readers since.
struct Cell {
  AccessStamp writer;
  IntervalRange written;        // all intervals of that write, overwritten ones too
  uint32_t lane = 0;        // of the buffer that was written
  bool holdsValue = false;
  bool accumulated = false; // the writer had read the value before
  bool persistent = false;  // carried from one micro-batch to the next
  Readers readers;
};

// Executes the trace in an order that respects streams, events, messages and collectives, with
// one vector clock per stream: component c of a clock is the number of instructions of stream c
// known to be finished.
//
// A send gives its receive an edge, not the reverse: it may be buffered. Messages along other
// axes than the stage axis give none, for the representative's own send does not precede its own
// receive. Both only remove order, so that accesses found ordered are ordered.
class HappensBefore {
public:
  HappensBefore(const ProgramT &program, bool unrolled)
      : program(program), trace(buildTrace(program, kSteps, unrolled)), findings("happens-before"),
        clockSize(trace.streamBase.back()), streamClock(clockSize, Clock(clockSize, 0)),
        streams(clockSize), heads(clockSize, 0), over(trace.nodes.size(), false), next(clockSize),
        arrived(trace.joins.size(), 0) {}

  std::vector<Finding> run() {
    for (const auto &stage : program.stages) {
      bytes.emplace_back(*stage);
      cells.emplace_back(bytes.back().intervals());
    }
    declarePersistent();
    buildEdges();
    drain();
    if (done < trace.nodes.size())
      reportStuck();
    return findings.take();
  }

private:
  using Clock = std::vector<uint32_t>;
  // Holds the clock of a finished record or send until the last node that waits for it has read
  // it.
  struct Published {
    uint32_t readers = 0;
    Clock clock;
  };

  void declarePersistent() {
    for (size_t s = 0; s < program.stages.size(); ++s) {
      auto add = [&](const BufferRefT &buffer) {
        IntervalRange range = bytes[s].of(buffer);
        for (uint32_t interval = range.first; interval < range.last; ++interval) {
          cells[s][interval].holdsValue = cells[s][interval].persistent = true;
          cells[s][interval].written = range;
        }
      };
      for (const auto &state : program.stages[s]->states)
        add(*state->buffer);
      for (const auto &scalar : program.stages[s]->host_scalars)
        add(*scalar->buffer);
    }
  }

  // Returns the node that `node` waits for besides its predecessor on the stream; -1 if none.
  static int64_t awaited(const Node &node) {
    return node.type != Body::Recv ? node.record : node.inStage ? -1 : node.partner;
  }

  // Represents a group of messages at the head of its stream: its members run when they can, in
  // any order.
  struct Group {
    uint32_t left = 0;         // members that have not ended
    std::vector<bool> offered; // by position in the group
    Clock after;               // join of the clocks of the members that have ended
  };

  // Distributes the nodes to their streams and counts the waiters of each node.
  void buildEdges() {
    for (uint32_t n = 0; n < trace.nodes.size(); ++n) {
      Node node = trace.nodes[n];
      streams[node.stream].push_back(n);
      if (int64_t from = awaited(node); from >= 0)
        ++published[static_cast<uint32_t>(from)].readers;
    }
  }

  // Orders the ready nodes by row of the stages' tables, so that a byte read before it is written
  // is reported as such, and not as a race with the later write.
  struct Ready {
    uint32_t row, node, stream; // row of the stage's table
    bool operator>(const Ready &other) const {
      return std::tie(row, node) > std::tie(other.row, other.node);
    }
  };

  // Adds a ready node. The least of all is kept outside of the queue, for it is mostly the next
  // one of the same row.
  void push(Ready candidate) {
    if (hasLeast && least > candidate)
      std::swap(least, candidate);
    if (hasLeast || (!ready.empty() && candidate > ready.top()))
      ready.push(candidate);
    else
      hasLeast = true, least = candidate;
  }

  Ready pop() {
    if (hasLeast && (ready.empty() || ready.top() > least)) {
      hasLeast = false;
      return least;
    }
    Ready top = ready.top();
    ready.pop();
    return top;
  }

  // Makes the head of a stream ready, unless it has to wait.
  void makeReady(uint32_t stream) {
    if (heads[stream] == streams[stream].size())
      return;
    uint32_t n = streams[stream][heads[stream]];
    Node node = trace.nodes[n];
    if (node.group >= 0 && membersAt(stream) > 1)
      return makeGroupReady(stream);
    if (!hasToWait(node, stream))
      offer(n, node);
  }

  bool hasToWait(const Node &node, uint32_t stream) {
    int64_t from = awaited(node);
    if (from < 0 || over[from])
      return false;
    std::vector<uint32_t> &list = waiting[static_cast<uint32_t>(from)];
    if (std::find(list.begin(), list.end(), stream) == list.end())
      list.push_back(stream);
    return true;
  }

  void offer(uint32_t n, const Node &node) {
    auto rows = static_cast<uint32_t>(program.stages[node.stage]->table.size());
    next[node.stream] = node;
    push({node.step * rows + node.entry, n, node.stream});
  }

  // Counts the messages of the group at the head of a stream, which are adjacent.
  uint32_t membersAt(uint32_t stream) const {
    const std::vector<uint32_t> &list = streams[stream];
    size_t head = heads[stream], end = head + 1;
    while (end < list.size() && trace.nodes[list[end]].group == int64_t(list[head]))
      ++end;
    return static_cast<uint32_t>(end - head);
  }

  void makeGroupReady(uint32_t stream) {
    auto [it, isNew] = groups.try_emplace(stream);
    Group &group = it->second;
    if (isNew) {
      group.left = membersAt(stream);
      group.offered.assign(group.left, false);
    }
    for (size_t i = 0; i < group.offered.size(); ++i) {
      uint32_t n = streams[stream][heads[stream] + i];
      Node node = trace.nodes[n];
      if (group.offered[i] || hasToWait(node, stream))
        continue;
      group.offered[i] = true;
      offer(n, node);
    }
  }

  void drain() {
    for (uint32_t stream = 0; stream < clockSize; ++stream)
      makeReady(stream);
    while (hasLeast || !ready.empty()) {
      Ready head = pop();
      finished.clear();
      if (auto group = groups.find(head.stream); group != groups.end())
        arriveTogether(head.node, group->second);
      else
        arrive(head.node, next[head.stream]);
      for (auto [f, stream] : finished) {
        makeReady(stream);
        auto it = waiting.find(f);
        if (it == waiting.end())
          continue;
        std::vector<uint32_t> woken = std::move(it->second);
        waiting.erase(it);
        for (uint32_t other : woken)
          makeReady(other);
      }
    }
  }

  void joinInto(Clock &into, const Clock &from) {
    for (size_t c = 0; c < clockSize; ++c)
      into[c] = std::max(into[c], from[c]);
  }

  // Joins the clock of the node that `node` has waited for into `clock`.
  void learn(const Node &node, Clock &clock) {
    int64_t from = awaited(node);
    if (from < 0)
      return;
    auto it = published.find(static_cast<uint32_t>(from));
    joinInto(clock, it->second.clock);
    if (--it->second.readers == 0)
      published.erase(it);
  }

  // Finishes a member of a group. It knows what its stream knew before the group, and nothing of
  // the other members; the stream continues with the knowledge of all when the last has ended.
  void arriveTogether(uint32_t n, Group &group) {
    Node node = trace.nodes[n];
    uint32_t stream = node.stream;
    auto end = static_cast<uint32_t>(heads[stream] + group.offered.size());
    Clock clock = streamClock[stream];
    learn(node, clock);
    finish(n, node, end, clock);
    if (group.after.empty())
      group.after = std::move(clock);
    else
      joinInto(group.after, clock);
    if (--group.left > 0)
      return;
    streamClock[stream] = std::move(group.after);
    streamClock[stream][stream] = heads[stream] = end;
    groups.erase(stream);
  }

  // Finishes a node whose predecessors are done. A collective finishes with its last member.
  void arrive(uint32_t n, const Node &node) {
    learn(node, streamClock[node.stream]);
    if (node.join < 0) {
      finish(n, node);
      return;
    }
    // Applies the accesses with the member's own clock: it may read and write as soon as it
    // arrives, knowing nothing of the others.
    Clock own = streamClock[node.stream];
    access({n, node.stream, heads[node.stream] + 1}, node, own);
    const std::vector<uint32_t> &members = trace.joins[node.join];
    if (++arrived[node.join] < members.size())
      return;
    // Joins the clock of the root alone for a broadcast: its receivers wait for the root only,
    // and the root for no member.
    bool broadcast = node.inst->body.AsCollective()->kind == CollectiveKind::Broadcast;
    Clock joined(clockSize, 0);
    for (uint32_t m : members) {
      joinInto(joined, streamClock[trace.nodes[m].stream]);
      if (broadcast)
        break;
    }
    for (uint32_t m : members) {
      Node member = trace.nodes[m];
      joinInto(streamClock[member.stream], joined);
      streamClock[member.stream][member.stream] = ++heads[member.stream];
      publish(m, member, streamClock[member.stream]);
    }
  }

  void finish(uint32_t n, const Node &node) {
    Clock &clock = streamClock[node.stream];
    clock[node.stream] = ++heads[node.stream];
    finish(n, node, clock[node.stream], clock);
  }

  // Finishes a node with the clock `clock`; a clock that has `sequence` nodes of its stream
  // includes it.
  void finish(uint32_t n, const Node &node, uint32_t sequence, const Clock &clock) {
    access({n, node.stream, sequence}, node, clock);
    publish(n, node, clock);
  }

  void publish(uint32_t n, const Node &node, const Clock &clock) {
    if (node.type == Body::Record || node.type == Body::Send)
      if (auto it = published.find(n); it != published.end())
        it->second.clock = clock;
    over[n] = true;
    ++done;
    finished.push_back({n, node.stream});
  }

  static bool ordered(const AccessStamp &before, const AccessStamp &who, const Clock &clock) {
    return before.node == kInitialWriter || before.node == who.node ||
           clock[before.stream] >= before.sequence;
  }

  // Applies reads before writes, for an instruction may write in place what it reads.
  void access(const AccessStamp &who, const Node &node, const Clock &clock) {
    auto accesses = bytes[node.stage].of(node.entry, node.index);
    for (const IntervalAccess &a : accesses)
      if (a.read)
        read(who, node, a, clock);
    for (const IntervalAccess &a : accesses)
      if (a.write)
        write(who, node, a, clock);
  }

  void read(const AccessStamp &who, const Node &node, const IntervalAccess &a, const Clock &clock) {
    bool hole = false;
    for (uint32_t interval = a.first; interval < a.last; ++interval) {
      Cell &cell = cells[node.stage][interval];
      if (!cell.holdsValue) {
        hole = true;
        continue;
      }
      if (!ordered(cell.writer, who, clock))
        reportRace(cell.writer.node, who.node, "written", "read", beginOf(node, interval));
      else
        checkValue(who.node, node, a, cell, interval);
      cell.readers.add(who);
    }
    if (hole)
      findings.add(trace.at(node,
                            describeBody(program, *node.inst) + " reads arena bytes " +
                                bytesOf(node, a) + " that nothing has written",
                            "write or fill the bytes in an instruction ordered before it"));
  }

  uint64_t beginOf(const Node &node, uint32_t interval) const {
    return bytes[node.stage].begin(interval);
  }
  std::string bytesOf(const Node &node, const IntervalRange &range) const {
    return "[" + std::to_string(beginOf(node, range.first)) + ", " +
           std::to_string(beginOf(node, range.last)) + ")";
  }

  bool perMicroBatch(const Node &node) const { return trace.runsPerMicroBatch(node); }

  // Returns true once for each pair of instructions, whatever the bytes and micro-batches.
  bool isNewPair(const Node &a, const Node &b) {
    return pairsSeen.insert({a.inst, b.inst}).second;
  }

  void checkValue(uint32_t n, const Node &reader, const IntervalAccess &a, const Cell &cell,
                  uint32_t interval) {
    if (cell.writer.node == kInitialWriter || cell.persistent)
      return;
    checkWhole(reader, a, cell);
    checkFresh(n, reader, a, cell, interval);
  }

  // Reports a read that overlaps the end of one write together with other bytes: another tensor
  // was written over part of what it reads. Tensors and their parts nest, so such reads are
  // wrong.
  void checkWhole(const Node &reader, const IntervalAccess &a, const Cell &cell) {
    bool inside = cell.written.first <= a.first && a.last <= cell.written.last;
    bool around = a.first <= cell.written.first && cell.written.last <= a.last;
    if (inside || around)
      return;
    Node writer = trace.nodes[cell.writer.node];
    if (!isNewPair(writer, reader))
      return;
    findings.add(trace.at(reader,
                          describeBody(program, *reader.inst) + " reads arena bytes " +
                              bytesOf(reader, a) + ", partly overwritten with bytes " +
                              bytesOf(reader, cell.written) + " by " + trace.describe(writer),
                          "give the two tensors disjoint bytes while both are live"));
  }

  // Reports a read of another micro-batch's value outside the persistent tensors: a slot that was
  // reused too early is in program order no race, only wrong.
  void checkFresh(uint32_t n, const Node &reader, const IntervalAccess &a, const Cell &cell,
                  uint32_t interval) {
    if ((trace.nodes.sameRow(n, cell.writer.node) && a.lane == cell.lane) ||
        !perMicroBatch(reader))
      return;
    Node writer = trace.nodes[cell.writer.node];
    const auto &pools = program.stages[reader.stage]->pools;
    SlotRef re = slotOf(trace.entryOf(reader), a.lane);
    SlotRef we = slotOf(trace.entryOf(writer), cell.lane);
    bool sameMicroBatch = reader.step == writer.step && re.micro_batch() == we.micro_batch() &&
                          pools[re.pool()]->chunk == pools[we.pool()]->chunk;
    // Allows sums over micro-batches and what the step itself computes, which are shared outside
    // of slots.
    bool shared = !a.slotted && (!perMicroBatch(writer) || cell.accumulated);
    if (shared || (sameMicroBatch && perMicroBatch(writer)) || !isNewPair(writer, reader))
      return;
    findings.add(trace.at(reader,
                          describeBody(program, *reader.inst) + " reads arena byte " +
                              std::to_string(beginOf(reader, interval)) + " of slot " +
                              std::to_string(re.slot()) +
                              ", which belongs to another micro-batch or chunk: last written by " +
                              trace.describe(writer),
                          "give the stage more slots, or reuse a slot only after its backward"));
  }

  void write(const AccessStamp &who, const Node &node, const IntervalAccess &a,
             const Clock &clock) {
    bool accumulated = false;
    for (uint32_t interval = a.first; interval < a.last; ++interval) {
      const Cell &cell = cells[node.stage][interval];
      if (!ordered(cell.writer, who, clock))
        reportRace(cell.writer.node, who.node, "written", "overwritten", beginOf(node, interval));
      cell.readers.forEach([&](const AccessStamp &reader) {
        accumulated |= reader.node == who.node;
        if (!ordered(reader, who, clock))
          reportRace(reader.node, who.node, "read", "overwritten", beginOf(node, interval));
      });
    }
    for (uint32_t interval = a.first; interval < a.last; ++interval) {
      Cell &cell = cells[node.stage][interval];
      cell.writer = who;
      cell.written = a;
      cell.lane = a.lane;
      cell.holdsValue = true;
      cell.accumulated = accumulated;
      cell.readers.clear();
    }
  }

  void reportRace(uint32_t first, uint32_t second, const char *how, const char *then,
                  uint64_t byte) {
    Node a = trace.nodes[first], b = trace.nodes[second];
    if (!isNewPair(a, b))
      return;
    findings.add(trace.at(b,
                          "arena byte " + std::to_string(byte) + " is " + how + " by " +
                              trace.describe(a) + " and " + then + " by " + trace.describe(b) +
                              " with nothing that orders the two",
                          "record an event on stream " + std::to_string(a.inst->stream) +
                              " after the first and wait for it on stream " +
                              std::to_string(b.inst->stream) +
                              " before the second, or give them disjoint bytes"));
  }

  // Reports the first unfinished instruction at the head of a stream, in the order of the stages.
  void reportStuck() {
    auto first = static_cast<uint32_t>(trace.nodes.size());
    for (uint32_t stream = 0; stream < clockSize; ++stream) {
      size_t head = heads[stream];
      while (head < streams[stream].size() && over[streams[stream][head]])
        ++head; // a member of a group that has not ended
      if (head < streams[stream].size())
        first = std::min(first, streams[stream][head]);
    }
    Node node = trace.nodes[first];
    findings.add(trace.at(node,
                          describeBody(program, *node.inst) +
                              " never runs, for streams or stages wait for each other; " +
                              std::to_string(trace.nodes.size() - done) +
                              " instructions behind it were not checked",
                          "see the cycle that launch-order reports"));
  }

  const ProgramT &program;
  Trace trace;
  Findings findings;
  size_t clockSize;
  std::vector<Clock> streamClock;
  std::vector<std::vector<uint32_t>> streams; // nodes of each stream, in order
  std::vector<uint32_t> heads;                // finished nodes of each stream
  std::vector<bool> over;                     // whether each node is finished
  std::unordered_map<uint32_t, Published> published;
  std::unordered_map<uint32_t, std::vector<uint32_t>> waiting; // node -> streams it holds up
  std::unordered_map<uint32_t, Group> groups; // by stream: at its head
  std::vector<Node> next; // of each stream: the head that is offered
  std::priority_queue<Ready, std::vector<Ready>, std::greater<>> ready;
  Ready least = {0, 0, 0}; // of all that are ready, if there is one outside of the queue
  bool hasLeast = false;
  std::vector<std::pair<uint32_t, uint32_t>> finished; // node and stream
  std::vector<StageIntervals> bytes;                       // of each stage
  std::vector<std::vector<Cell>> cells;                // of each stage's intervals
  std::vector<uint32_t> arrived;                       // members that reached a collective
  std::set<std::pair<const InstructionT *, const InstructionT *>> pairsSeen;
  size_t done = 0;
};

} // namespace

std::vector<Finding> checkHappensBefore(const ProgramT &program) {
  return HappensBefore(program, /*unrolled=*/false).run();
}

std::vector<Finding> checkHappensBeforeUnrolled(const ProgramT &program) {
  return HappensBefore(program, /*unrolled=*/true).run();
}

} // namespace llmc::planfile
