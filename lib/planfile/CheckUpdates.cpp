// Checks what a step does to its persistent tensors: sums are begun, added to and used once, and
// every state that the update has to renew is written once.
#include "lib/planfile/Trace.h"

#include <algorithm>
#include <map>
#include <set>

namespace llmc::planfile {
namespace {

enum class AccessKind { Read, Write, Change, Reduce, Gather }; // Change: reads what it writes

// Describes what an instruction does to the intervals [first, last).
struct Event {
  uint32_t first, last, instruction;
  AccessKind act;
  bool fills = false, product = false;
  bool updates = false; // the instruction writes a state that is no accumulator
  bool passes = false;  // it passes on what it reads: it adds to no accumulator
  bool receives = false; // it reads a part of a sum over ranks
};

// Holds the state of bytes of a persistent tensor or an output that every access covers wholly or
// not at all.
struct Interval {
  int64_t state = -1;                  // index into Stage.states; -1: an output alone
  const InstructionT *begunBy = nullptr; // of an accumulator
  size_t begunIn = 0;                  // row
  bool written = false, whole = false; // whole: written by a collective, which has summed
  bool freed = false; // of a whole sum: the update uses its bytes for other values
  bool reduced = false, taken = false; // taken: what runs once a step has read it, to use it
  const InstructionT *usedBy = nullptr; // that updated a state with it
  uint32_t updates = 0;                // of a state that is no accumulator
  std::vector<uint32_t> additions;     // by micro-batch
};

class Updates {
public:
  Updates(const ProgramT &program, uint32_t index, Findings &findings)
      : program(program), stage(*program.stages[index]), index(index), findings(findings) {}

  // Names the accumulators that get an addition on this stage.
  std::set<std::string> added;

  void run() {
    cut();
    findScattered();
    for (const auto &procedure : stage.procedures)
      events.push_back(eventsOf(*procedure));
    for (row = 0; row < stage.table.size(); ++row)
      for (const Event &event : events[stage.table[row]->procedure])
        for (uint32_t interval = event.first; interval < event.last; ++interval)
          if (offsets[interval + 1] > offsets[interval])
            happen(event, intervals[interval]);
    for (uint32_t interval = 0; interval < intervals.size(); ++interval)
      if (training())
        checkEnd(intervals[interval]);
    for (const auto &output : stage.outputs)
      checkWritten("output '" + output->name + "'", *output->buffer);
    for (const auto &result : stage.results)
      checkWritten("result '" + result->name + "'", *result->buffer);
  }

private:
  bool training() const { return program.mode == Mode::Train; }
  bool isAccumulator(const Interval &interval) const {
    return interval.state >= 0 && stage.states[interval.state]->role == StateRole::Accumulator;
  }
  const ProcedureT &procedureOf(const EntryT &entry) const {
    return *stage.procedures[entry.procedure];
  }

  // Returns the bytes of a state that hold elements; of a flat buffer all.
  static std::pair<uint64_t, uint64_t> bytesOf(const StateShardT &state) {
    uint64_t size = byteSize(state.dtype);
    for (int64_t dim : state.local_shape)
      size *= static_cast<uint64_t>(dim);
    uint64_t begin = state.buffer->offset;
    return {begin, begin + (state.flat ? state.buffer->size : std::min(size, state.buffer->size))};
  }

  // Cuts the tracked bytes where an access or another tensor begins or ends.
  void cut() {
    std::vector<std::pair<uint64_t, uint64_t>> tracked;
    for (const auto &state : stage.states)
      tracked.push_back(bytesOf(*state));
    for (const BufferRefT *buffer : readByHost(stage))
      tracked.push_back({buffer->offset, buffer->offset + buffer->size});
    for (auto [begin, end] : tracked)
      offsets.insert(offsets.end(), {begin, end});
    for (const auto &procedure : stage.procedures)
      for (const auto &inst : procedure->instructions)
        forEachAccess(*inst, 0, [&](const ByteAccess &a) {
          offsets.insert(offsets.end(), {a.begin, a.end});
        });
    std::sort(offsets.begin(), offsets.end());
    offsets.erase(std::unique(offsets.begin(), offsets.end()), offsets.end());
    intervals.resize(offsets.empty() ? 0 : offsets.size() - 1);
    watched.resize(intervals.size(), false);
    for (size_t i = 0; i < tracked.size(); ++i)
      for (auto [interval, end] = range(tracked[i].first, tracked[i].second); interval < end;
           ++interval) {
        watched[interval] = true;
        if (i < stage.states.size())
          intervals[interval].state = static_cast<int64_t>(i);
      }
  }

  // Finds the parts of sums over ranks that a reduce-scatter writes beside the states: a launch casts
  // them to the type of their accumulators.
  void findScattered() {
    for (const auto &procedure : stage.procedures)
      for (const auto &inst : procedure->instructions)
        if (const CollectiveT *collective = inst->body.AsCollective();
            collective && collective->kind == CollectiveKind::ReduceScatter)
          forEachAccess(*inst, 0, [&](const ByteAccess &a) {
            if (a.write && !a.slotted)
              scattered.push_back({a.begin, a.end});
          });
    std::sort(scattered.begin(), scattered.end());
  }
  bool isScattered(const ByteAccess &a) const {
    uint64_t known = a.begin;
    for (auto it = std::lower_bound(scattered.begin(), scattered.end(), std::pair(a.begin, uint64_t(0)));
         it != scattered.end() && it->first <= known && known < a.end; ++it)
      known = std::max(known, it->second);
    return known >= a.end;
  }

  std::pair<uint32_t, uint32_t> range(uint64_t begin, uint64_t end) const {
    auto find = [&](uint64_t byte) {
      return static_cast<uint32_t>(std::lower_bound(offsets.begin(), offsets.end(), byte) -
                                   offsets.begin());
    };
    return begin < end ? std::pair(find(begin), find(end)) : std::pair(0u, 0u);
  }

  // Calls `visit` for each run of watched intervals in an access; most accesses are one tensor and
  // have one run.
  template <class Visit>
  void forEachRun(const ByteAccess &a, Visit visit) const {
    auto [first, last] = range(a.begin, a.end);
    while (first < last) {
      while (first < last && !watched[first])
        ++first;
      uint32_t end = first;
      while (end < last && watched[end])
        ++end;
      if (first < end)
        visit(first, end);
      first = end;
    }
  }

  // Lists accumulators that only some ranks hold, as those of experts, by their place.
  static std::multimap<uint64_t, const StateShardT *> findElsewhere(const StageT &stage) {
    std::multimap<uint64_t, const StateShardT *> found;
    for (const auto &state : stage.states)
      if (state->role == StateRole::Accumulator && !state->only_axes.empty())
        found.emplace(state->buffer->offset, state.get());
    return found;
  }

  std::vector<Event> eventsOf(const ProcedureT &procedure) const {
    std::vector<Event> list;
    for (uint32_t i = 0; i < procedure.instructions.size(); ++i) {
      const InstructionT &inst = *procedure.instructions[i];
      std::vector<ByteAccess> accesses;
      forEachAccess(inst, 0, [&](const ByteAccess &a) { accesses.push_back(a); });
      // Skips copies onto themselves, which a sum over a group of one rank becomes: they change
      // nothing.
      if (inst.body.type == Body::Copy && accesses.size() == 2 &&
          accesses[0].begin == accesses[1].begin)
        continue;
      const CollectiveT *sum = inst.body.AsCollective();
      bool scatters = sum && sum->kind == CollectiveKind::ReduceScatter;
      bool updates = false, passes = true, receives = false;
      for (const ByteAccess &a : accesses) {
        forEachRun(a, [&](uint32_t first, uint32_t) {
          updates |= a.write && intervals[first].state >= 0 && !isAccumulator(intervals[first]);
          passes &= scatters || !a.write || !isAccumulator(intervals[first]);
        });
        receives |= a.read && isScattered(a);
      }
      for (bool writes : {false, true})
        for (const ByteAccess &a : accesses) {
          bool changes = a.read || std::any_of(accesses.begin(), accesses.end(), [&](const auto &r) {
            return r.read && r.begin <= a.begin && a.end <= r.end;
          });
          bool collective = inst.body.type == Body::Collective;
          AccessKind act = !writes      ? AccessKind::Read
                    : collective ? (changes ? AccessKind::Reduce : AccessKind::Gather)
                    : changes    ? AccessKind::Change
                                 : AccessKind::Write;
          if (writes ? a.write : a.read)
            forEachRun(a, [&](uint32_t first, uint32_t last) {
              list.push_back({first, last, i, act, inst.body.type == Body::Fill,
                              inst.body.type == Body::Matmul, updates, passes, receives});
            });
        }
    }
    return list;
  }

  void happen(const Event &event, Interval &interval) {
    if (training() && isAccumulator(interval))
      accumulate(event, interval);
    else if (training() && interval.state >= 0 && event.act != AccessKind::Read)
      interval.updates += event.act == AccessKind::Write || event.act == AccessKind::Change;
    interval.whole |= event.act == AccessKind::Gather || (event.act == AccessKind::Write && event.receives);
    interval.written |= event.act != AccessKind::Read;
  }

  void accumulate(const Event &event, Interval &interval) {
    const EntryT &entry = *stage.table[row];
    const InstructionT &inst = *procedureOf(entry).instructions[event.instruction];
    ProcedureKind kind = procedureOf(entry).kind;
    bool perMicroBatch = kind != ProcedureKind::Begin && kind != ProcedureKind::Update;
    if (interval.freed && kind == ProcedureKind::Update)
      return;
    bool begins = event.act == AccessKind::Write || event.act == AccessKind::Gather;
    if (!begins && !interval.begunBy) {
      report(event, interval, event.act == AccessKind::Read ? "reads" : "adds to",
             "before this step has begun it, so that the last step's sum is in it",
             "fill it before, or let the first addition write it");
      interval.begunBy = &inst; // reported once
    }
    if (begins && !perMicroBatch && kind == ProcedureKind::Update && interval.begunBy) {
      // Allows the update to reuse the bytes of a sum once it has been read.
      if (!interval.taken)
        report(event, interval, "writes over", "which nobody has read",
               "read the sum before its bytes serve again");
      // A sum that the last backward has passed on belongs to no parameter: its bytes are scratch.
      interval.freed = interval.taken && !interval.reduced && !stage.states[interval.state]->view;
    } else if (begins) {
      // Allows the calls of one product, which share rows.
      bool again = event.product && interval.begunBy && interval.begunIn == row &&
                   interval.begunBy->origin == inst.origin;
      if (interval.begunBy && !again)
        report(event, interval, "writes over", "which this step has begun already",
               "begin each sum once a step, before the first addition");
      interval.begunBy = &inst;
      interval.begunIn = row;
    }
    if (event.act == AccessKind::Read) {
      interval.taken |= !perMicroBatch || (isLast(kind) && event.passes);
      if (event.updates && !interval.usedBy)
        interval.usedBy = &inst;
      return;
    }
    if (interval.usedBy && interval.usedBy != &inst)
      report(event, interval, "changes", "after a state was updated with it",
             "update states after the last change of their gradients");
    interval.reduced |= event.act == AccessKind::Reduce || event.act == AccessKind::Gather;
    if (!perMicroBatch || event.fills ||
        (event.act != AccessKind::Write && event.act != AccessKind::Change))
      return;
    if (interval.reduced || interval.taken)
      report(event, interval, "adds to", "whose sum over ranks has been taken",
             "reduce a gradient after the last addition");
    interval.additions.resize(program.micro_batches, 0);
    ++interval.additions[entry.micro_batch];
  }

  void checkEnd(const Interval &interval) {
    if (interval.state < 0)
      return;
    const StateShardT &state = *stage.states[interval.state];
    if (!isAccumulator(interval)) {
      bool due = program.optimizer != OptimizerKind::None || state.role != StateRole::Parameter;
      if (due && interval.updates != 1 && !(interval.updates == 0 && interval.whole))
        report(-1, nameOf(state) + " is updated " + std::to_string(interval.updates) +
                       " times a step, not once",
               "let one instruction of the update write it");
      return;
    }
    if (!interval.begunBy)
      report(-1, nameOf(state) + " is begun by nothing in the step",
             "fill it at the begin of the step");
    if (interval.whole)
      return add(state);
    // Accepts sums of the step (its loss, its tokens) without additions: they are zero on stages
    // that have no part in them.
    if (interval.additions.empty() && !state.view)
      return;
    add(state);
    if (interval.additions.empty())
      return report(-1, nameOf(state) + " gets no addition from any micro-batch",
                    "add the gradient, or drop it");
    for (uint32_t m = 0; m < program.micro_batches; ++m)
      if (interval.additions[m] != interval.additions[0])
        report(m,
               nameOf(state) + " gets " + std::to_string(interval.additions[m]) +
                   " additions from the micro-batch and " + std::to_string(interval.additions[0]) +
                   " from the first one",
               "add the same gradients for all micro-batches");
  }

  // Records an addition to a state, to those that other ranks have in its place, and to all others that lie
  // in its flat buffer.
  void add(const StateShardT &state) {
    added.insert(state.name);
    if (!state.only_axes.empty() && !state.flat)
      for (auto [at, end] = elsewhere.equal_range(state.buffer->offset); at != end; ++at)
        added.insert(at->second->name);
    if (state.flat)
      for (const auto &other : stage.states)
        if (other->flat && other->flat->group == state.flat->group)
          added.insert(other->name);
  }

  void checkWritten(const std::string &name, const BufferRefT &buffer) {
    auto [first, last] = range(buffer.offset, buffer.offset + buffer.size);
    for (uint32_t interval = first; interval < last; ++interval)
      if (!intervals[interval].written)
        return report(-1, name + " is read by the host, and nothing in the step writes its byte " +
                              std::to_string(offsets[interval]),
                      "compute it in the step");
  }

  static std::string nameOf(const StateShardT &state) {
    return std::string(toString(state.role)) + " '" + state.name + "'";
  }

  void report(const Event &event, const Interval &interval, const char *does, const char *why,
              const char *fix) {
    const EntryT &entry = *stage.table[row];
    const InstructionT &inst = *procedureOf(entry).instructions[event.instruction];
    const OriginT &origin = *program.origins[inst.origin];
    std::string text = describeBody(program, inst);
    if (!origin.nodes.empty())
      text += " for " + origin.nodes.front();
    report(entry.micro_batch,
           text + " " + does + " " + nameOf(*stage.states[interval.state]) + " " + why, fix,
           procedureOf(entry).name, event.instruction);
  }

  void report(int64_t microBatch, std::string message, std::string fix, std::string procedure = "",
              int64_t instruction = -1) {
    Finding finding;
    finding.stage = static_cast<int>(index);
    finding.procedure = std::move(procedure);
    finding.instruction = instruction;
    finding.microBatch = microBatch;
    finding.message = std::move(message);
    finding.fix = std::move(fix);
    findings.add(std::move(finding));
  }

  const ProgramT &program;
  const StageT &stage;
  uint32_t index;
  Findings &findings;
  std::multimap<uint64_t, const StateShardT *> elsewhere = findElsewhere(stage);
  std::vector<uint64_t> offsets; // ascending
  std::vector<Interval> intervals;       // one less
  std::vector<bool> watched;     // of each interval
  std::vector<std::pair<uint64_t, uint64_t>> scattered; // bytes, by the first
  std::vector<std::vector<Event>> events; // of each procedure
  size_t row = 0;
};

} // namespace

std::vector<Finding> checkUpdates(const ProgramT &program) {
  Findings findings("updates");
  std::set<std::string> added;
  for (uint32_t s = 0; s < program.stages.size(); ++s) {
    Updates stage(program, s, findings);
    stage.run();
    added.merge(stage.added);
  }
  for (size_t s = 0; s < program.stages.size() && program.mode == Mode::Train; ++s)
    for (const auto &state : program.stages[s]->states)
      if (state->role == StateRole::Accumulator && !added.count(state->name)) {
        Finding finding;
        finding.stage = static_cast<int>(s);
        finding.message = "accumulator '" + state->name + "' gets no addition on any stage";
        finding.fix = "add what it is to sum, or drop it";
        findings.add(std::move(finding));
      }
  return findings.take();
}

} // namespace llmc::planfile
