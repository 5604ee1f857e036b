#include "lib/planfile/CheckShadow.h"
#include "lib/planfile/CheckWalk.h"

#include <algorithm>
#include <queue>

namespace llmc::planfile {
namespace {

// Two steps: what the second overwrites was read by the first, and slots,
// buckets and message buffers come round again.
constexpr unsigned kSteps = 2;

// Executes the trace in an order that respects streams, events, messages and
// collectives, with one vector clock per stream: component c of a clock is the
// number of instructions of stream c known to be finished.
//
// A send gives its receive an edge, not the reverse: it may be buffered. Messages
// along other axes than the stage axis give none, for the representative's own
// send does not precede its own receive. Both only take order away, so what is
// found ordered is ordered.
class HappensBefore {
public:
  explicit HappensBefore(const ProgramT &program)
      : program(program), trace(buildTrace(program, kSteps)), findings("happens-before"),
        clockSize(trace.streamBase.back()), streamClock(clockSize, Clock(clockSize, 0)),
        sequence(trace.nodes.size(), 0), pending(trace.nodes.size(), 0),
        published(trace.nodes.size()), shadows(program.stages.size()),
        arrived(trace.joins.size(), 0) {}

  std::vector<Finding> run() {
    declarePersistent();
    buildEdges();
    drain();
    if (done < trace.nodes.size())
      reportStuck();
    return findings.take();
  }

private:
  using Clock = std::vector<uint32_t>;

  void declarePersistent() {
    for (size_t s = 0; s < program.stages.size(); ++s) {
      auto add = [&](const BufferRefT &b) { shadows[s].addPersistent(b.offset, b.offset + b.size); };
      for (const auto &state : program.stages[s]->states)
        add(*state->buffer);
      for (const auto &scalar : program.stages[s]->host_scalars)
        add(*scalar->buffer);
    }
  }

  // Counts what each node waits for and remembers who waits for a node.
  void buildEdges() {
    successors.resize(trace.nodes.size());
    std::vector<int64_t> last(clockSize, -1);
    std::vector<uint32_t> length(clockSize, 0);
    auto edge = [&](int64_t from, uint32_t to) {
      successors[from].push_back(to);
      ++pending[to];
    };
    for (uint32_t n = 0; n < trace.nodes.size(); ++n) {
      const Node &node = trace.nodes[n];
      if (last[node.stream] >= 0)
        edge(last[node.stream], n);
      last[node.stream] = n;
      sequence[n] = ++length[node.stream];
      if (node.record >= 0)
        edge(node.record, n);
      if (node.partner >= 0 && !node.inStage && node.inst->body.type == Body::Recv)
        edge(node.partner, n);
    }
  }

  // Position in its stage's issue order first: then a byte read before it is
  // written is seen as such, not as a race with the later write.
  using Ready = std::pair<size_t, uint32_t>;
  Ready readyAt(uint32_t n) const { return {n - trace.stageBegin[trace.nodes[n].stage], n}; }

  void drain() {
    std::priority_queue<Ready, std::vector<Ready>, std::greater<>> ready;
    for (uint32_t n = 0; n < trace.nodes.size(); ++n)
      if (!pending[n])
        ready.push(readyAt(n));
    while (!ready.empty()) {
      uint32_t n = ready.top().second;
      ready.pop();
      finished.clear();
      arrive(n);
      for (uint32_t f : finished)
        for (uint32_t next : successors[f])
          if (--pending[next] == 0)
            ready.push(readyAt(next));
    }
  }

  void joinInto(Clock &into, const Clock &from) {
    for (size_t c = 0; c < clockSize; ++c)
      into[c] = std::max(into[c], from[c]);
  }

  // All that `n` waits for is done. A collective finishes with its last member.
  void arrive(uint32_t n) {
    const Node &node = trace.nodes[n];
    Clock &clock = streamClock[node.stream];
    if (node.record >= 0)
      joinInto(clock, published[node.record]);
    if (node.partner >= 0 && !node.inStage && node.inst->body.type == Body::Recv) {
      joinInto(clock, published[node.partner]);
      published[node.partner] = Clock(); // its only reader
    }
    if (node.join < 0) {
      finish(n);
      return;
    }
    const std::vector<uint32_t> &members = trace.joins[node.join];
    if (++arrived[node.join] < members.size())
      return;
    // Whoever receives a broadcast waits for the root only, and the root for nobody.
    bool broadcast = node.inst->body.AsCollective()->kind == CollectiveKind::Broadcast;
    Clock joined(clockSize, 0);
    for (uint32_t m : members) {
      joinInto(joined, streamClock[trace.nodes[m].stream]);
      if (broadcast)
        break;
    }
    for (uint32_t m : members) {
      joinInto(streamClock[trace.nodes[m].stream], joined);
      finish(m);
    }
  }

  void finish(uint32_t n) {
    const Node &node = trace.nodes[n];
    Clock &clock = streamClock[node.stream];
    clock[node.stream] = sequence[n];
    access(n, clock);
    Body type = node.inst->body.type;
    if (type == Body::Record || type == Body::Send)
      published[n] = clock;
    ++done;
    finished.push_back(n);
  }

  bool ordered(uint32_t before, const Clock &clock) const {
    return before == kInitialWriter || clock[trace.nodes[before].stream] >= sequence[before];
  }

  // Reads first: an instruction may write in place what it reads.
  void access(uint32_t n, const Clock &clock) {
    const Node &node = trace.nodes[n];
    uint32_t slot = trace.entryOf(node).slot;
    bool writes = false;
    forEachAccess(*node.inst, slot, [&](const ByteAccess &a) {
      writes |= a.write;
      if (a.read)
        read(n, a, clock);
    });
    if (!writes)
      return;
    forEachAccess(*node.inst, slot, [&](const ByteAccess &a) {
      if (a.write)
        write(n, a, clock);
    });
  }

  void read(uint32_t n, const ByteAccess &a, const Clock &clock) {
    auto [it, last] = shadows[trace.nodes[n].stage].isolate(a.begin, a.end);
    uint64_t covered = a.begin;
    bool hole = false;
    for (; it != last; ++it) {
      hole |= it->first != covered;
      covered = it->second.end;
      ShadowCell &cell = it->second;
      if (!ordered(cell.writer, clock))
        reportRace(cell.writer, n, "written", "read", it->first);
      else
        checkValue(n, a, cell, it->first);
      uint32_t stream = trace.nodes[n].stream;
      auto same = std::find_if(cell.readers.begin(), cell.readers.end(), [&](uint32_t r) {
        return trace.nodes[r].stream == stream;
      });
      if (same == cell.readers.end())
        cell.readers.push_back(n);
      else
        *same = n;
    }
    if (hole || covered != a.end)
      findings.add(trace.at(trace.nodes[n],
                            describeBody(program, *trace.nodes[n].inst) + " reads arena bytes [" +
                                std::to_string(a.begin) + ", " + std::to_string(a.end) +
                                ") that nothing has written",
                            "write or fill the bytes in an instruction ordered before it"));
  }

  bool perMicroBatch(const Node &node) const { return trace.runsPerMicroBatch(node); }

  // One finding for each two instructions, whatever bytes and micro-batches.
  bool isNewPair(const Node &a, const Node &b) {
    return pairsSeen.insert({a.inst, b.inst}).second;
  }

  void checkValue(uint32_t n, const ByteAccess &a, const ShadowCell &cell, uint64_t byte) {
    if (cell.writer == kInitialWriter || cell.persistent)
      return;
    checkWhole(n, a, cell);
    checkFresh(n, a, cell, byte);
  }

  // Tensors and their parts nest. Who reads the end of one write together with
  // other bytes reads a tensor over which another one was laid.
  void checkWhole(uint32_t n, const ByteAccess &a, const ShadowCell &cell) {
    bool inside = cell.writtenBegin <= a.begin && a.end <= cell.writtenEnd;
    bool around = a.begin <= cell.writtenBegin && cell.writtenEnd <= a.end;
    const Node &reader = trace.nodes[n];
    if (inside || around || !isNewPair(trace.nodes[cell.writer], reader))
      return;
    findings.add(trace.at(reader,
                          describeBody(program, *reader.inst) + " reads arena bytes [" +
                              std::to_string(a.begin) + ", " + std::to_string(a.end) +
                              "), partly overwritten with bytes [" +
                              std::to_string(cell.writtenBegin) + ", " +
                              std::to_string(cell.writtenEnd) + ") by " +
                              trace.describe(trace.nodes[cell.writer]),
                          "give the two tensors disjoint bytes while both are live"));
  }

  // What a micro-batch reads outside the persistent tensors must be its own: in
  // program order a slot that came round too early is not a race, only wrong.
  void checkFresh(uint32_t n, const ByteAccess &a, const ShadowCell &cell, uint64_t byte) {
    const Node &reader = trace.nodes[n], &writer = trace.nodes[cell.writer];
    if (!perMicroBatch(reader))
      return;
    const EntryT &re = trace.entryOf(reader), &we = trace.entryOf(writer);
    bool sameMicroBatch = reader.step == writer.step && re.micro_batch == we.micro_batch;
    // Outside slots, sums over micro-batches and what the step itself computes
    // are meant to be shared.
    bool shared = !a.slotted && (!perMicroBatch(writer) || cell.accumulated);
    if (shared || (sameMicroBatch && perMicroBatch(writer)) || !isNewPair(writer, reader))
      return;
    findings.add(trace.at(reader,
                          describeBody(program, *reader.inst) + " reads arena byte " +
                              std::to_string(byte) + " of slot " + std::to_string(re.slot) +
                              ", which belongs to another micro-batch: last written by " +
                              trace.describe(writer),
                          "give the stage more slots, or reuse a slot only after its backward"));
  }

  void write(uint32_t n, const ByteAccess &a, const Clock &clock) {
    Shadow &shadow = shadows[trace.nodes[n].stage];
    auto [it, last] = shadow.isolate(a.begin, a.end);
    bool accumulated = false;
    for (; it != last; ++it) {
      const ShadowCell &cell = it->second;
      if (!ordered(cell.writer, clock))
        reportRace(cell.writer, n, "written", "overwritten", it->first);
      for (uint32_t reader : cell.readers) {
        accumulated |= reader == n;
        if (!ordered(reader, clock))
          reportRace(reader, n, "read", "overwritten", it->first);
      }
    }
    shadow.overwrite(a.begin, a.end, n, accumulated);
  }

  void reportRace(uint32_t first, uint32_t second, const char *how, const char *then,
                  uint64_t byte) {
    const Node &a = trace.nodes[first], &b = trace.nodes[second];
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

  void reportStuck() {
    for (uint32_t n = 0; n < trace.nodes.size(); ++n) {
      const Node &node = trace.nodes[n];
      if (sequence[n] != streamClock[node.stream][node.stream] + 1)
        continue; // finished, or behind another one of its stream
      findings.add(trace.at(node,
                            describeBody(program, *node.inst) +
                                " never runs, for streams or stages wait for each other; " +
                                std::to_string(trace.nodes.size() - done) +
                                " instructions behind it were not checked",
                            "see the cycle that launch-order reports"));
      return;
    }
  }

  const ProgramT &program;
  Trace trace;
  Findings findings;
  size_t clockSize;
  std::vector<Clock> streamClock;
  std::vector<uint32_t> sequence; // 1-based position of a node in its stream
  std::vector<uint32_t> pending;  // edges into a node that are still open
  std::vector<std::vector<uint32_t>> successors;
  std::vector<Clock> published; // clocks of finished records and sends
  std::vector<Shadow> shadows;
  std::vector<uint32_t> arrived; // members that reached a collective
  std::vector<uint32_t> finished;
  std::set<std::pair<const InstructionT *, const InstructionT *>> pairsSeen;
  size_t done = 0;
};

} // namespace

std::vector<Finding> checkHappensBefore(const ProgramT &program) {
  return HappensBefore(program).run();
}

} // namespace llmc::planfile
