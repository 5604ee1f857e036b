#include "lib/planfile/CheckBytes.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

namespace llmc::planfile {
namespace {

// Counts the bytes that hold a value, per interval and time. Time is the position of an instruction
// in the stage's issue order. The live range of a value is from its write to its last read before
// the bytes are written again, both ends included.
class Liveness {
public:
  Liveness(const StageIntervals &bytes, size_t length)
      : bytes(bytes), cells(bytes.intervals()), delta(length + 1, 0) {}

  // Excludes bytes that always hold a value; the caller counts them.
  void exclude(const IntervalRange &range) {
    for (uint32_t interval = range.first; interval < range.last; ++interval)
      cells[interval].excluded = true;
  }

  void read(const IntervalRange &range, int64_t time) {
    for (uint32_t interval = range.first; interval < range.last; ++interval) {
      cells[interval].lastRead = time;
      if (cells[interval].written < 0)
        cells[interval].written = 0; // what the last step left there
    }
  }

  void write(const IntervalRange &range, int64_t time) {
    for (uint32_t interval = range.first; interval < range.last; ++interval) {
      Cell &cell = cells[interval];
      if (cell.written >= 0 && (cell.lastRead == time || cell.written == time)) {
        cell.lastRead = time; // in place: the live range continues
        continue;
      }
      close(interval);
      cell.written = cell.lastRead = time;
    }
  }

  uint64_t peak(uint64_t always) {
    for (uint32_t interval = 0; interval < cells.size(); ++interval)
      close(interval);
    int64_t live = 0, most = 0;
    for (int64_t d : delta)
      most = std::max(most, live += d);
    return always + static_cast<uint64_t>(most);
  }

private:
  struct Cell {
    int64_t written = -1, lastRead = -1; // -1: never
    bool excluded = false;
  };

  void close(uint32_t interval) {
    const Cell &cell = cells[interval];
    if (cell.excluded || cell.written < 0)
      return;
    auto size = static_cast<int64_t>(bytes.size(interval));
    delta[cell.written] += size;
    delta[cell.lastRead + 1] -= size;
  }

  const StageIntervals &bytes;
  std::vector<Cell> cells;
  std::vector<int64_t> delta; // change of live bytes at each time
};

using Ranges = std::map<uint64_t, uint64_t>; // first byte -> one past the last

// Returns the persistent bytes of a stage, and calls `overlapped` with the names of any two
// tensors that share some.
template <class Overlapped>
Ranges persistentRanges(const StageT &stage, Overlapped overlapped) {
  std::vector<std::tuple<uint64_t, uint64_t, std::string>> list;
  // Leaves out what may share bytes: tensors of a flat buffer, and tensors that different ranks
  // hold.
  std::set<std::tuple<uint64_t, uint64_t, std::vector<uint32_t>>> shared;
  std::set<std::tuple<uint64_t, std::vector<uint32_t>, uint32_t>> held;
  for (const auto &state : stage.states) {
    uint64_t begin = state->buffer->offset, end = begin + state->buffer->size;
    if (!state->flat && !state->only_axes.empty() &&
        held.insert({begin, state->only_axes, state->only_at}).second &&
        !shared.insert({begin, end, state->only_axes}).second)
      continue;
    if (!state->flat)
      list.push_back({begin, end, std::string(toString(state->role)) + " '" + state->name + "'"});
  }
  for (size_t g = 0; g < stage.flat_groups.size(); ++g) {
    const BufferRefT &buffer = *stage.flat_groups[g]->buffer;
    list.push_back({buffer.offset, buffer.offset + buffer.size, "flat group " + std::to_string(g)});
  }
  for (const auto &scalar : stage.host_scalars)
    list.push_back({scalar->buffer->offset, scalar->buffer->offset + scalar->buffer->size,
                    "scalar '" + scalar->name + "'"});
  std::sort(list.begin(), list.end());
  Ranges ranges;
  uint64_t last = 0;
  std::string lastName;
  for (auto &[begin, end, name] : list) {
    if (begin == end)
      continue;
    if (begin < last) {
      overlapped(lastName, name);
      auto &merged = std::prev(ranges.end())->second;
      merged = std::max(merged, end);
    } else {
      ranges.emplace(begin, end);
    }
    if (end > last) {
      last = end;
      lastName = name;
    }
  }
  return ranges;
}

class Memory {
public:
  explicit Memory(const ProgramT &program) : program(program), findings("memory") {}

  std::vector<Finding> run() {
    for (uint32_t s = 0; s < program.stages.size(); ++s) {
      size_t before = findings.size();
      persistentRanges(*program.stages[s], [&](const std::string &a, const std::string &b) {
        report(s, "", -1, a + " and " + b + " share arena bytes",
               "give every persistent tensor bytes of its own");
      });
      checkInside(s);
      if (findings.size() == before)
        checkLive(s);
    }
    return findings.take();
  }

private:
  void report(uint32_t stage, const std::string &procedure, int64_t instruction,
              std::string message, std::string fix) {
    Finding finding;
    finding.stage = static_cast<int>(stage);
    finding.procedure = procedure;
    finding.instruction = instruction;
    finding.message = std::move(message);
    finding.fix = std::move(fix);
    findings.add(std::move(finding));
  }

  void checkInside(uint32_t s) {
    const StageT &stage = *program.stages[s];
    for (const auto &state : stage.states)
      checkFixed(s, "state '" + state->name + "'", *state->buffer);
    for (const auto &scalar : stage.host_scalars)
      checkFixed(s, "scalar '" + scalar->name + "'", *scalar->buffer);
    for (const auto &output : stage.outputs)
      checkFixed(s, "output '" + output->name + "'", *output->buffer);
    checkResultsApart(s);
    for (const auto &procedure : stage.procedures) {
      for (size_t i = 0; i < procedure->instructions.size(); ++i) {
        checkReach(s, *procedure, i, EntryT());
        checkPartialOverlap(s, *procedure, i);
      }
    }
    std::set<std::vector<uint32_t>> seen; // procedures with the slots of their lanes
    for (const auto &entry : stage.table) {
      std::vector<uint32_t> key = {entry->procedure, entry->slot};
      for (const SlotRef &lane : entry->more)
        key.push_back(lane.slot());
      if (!seen.insert(std::move(key)).second)
        continue;
      for (size_t i = 0; i < stage.procedures[entry->procedure]->instructions.size(); ++i)
        checkReach(s, *stage.procedures[entry->procedure], i, *entry);
    }
  }

  void checkReach(uint32_t s, const ProcedureT &procedure, size_t i, const EntryT &entry) {
    const InstructionT &inst = *procedure.instructions[i];
    uint64_t bytes = program.stages[s]->arena_bytes;
    forEachAccess(inst, entry, [&](const ByteAccess &a) {
      if (a.end > bytes)
        report(s, procedure.name, static_cast<int64_t>(i),
               describeBody(program, inst) + " reaches byte " + std::to_string(a.end) +
                   " of an arena of " + std::to_string(bytes),
               "enlarge the arena, or move the buffer into it");
    });
  }

  void checkFixed(uint32_t s, const std::string &name, const BufferRefT &buffer) {
    uint64_t end = buffer.offset + buffer.size;
    if (end > program.stages[s]->arena_bytes)
      report(s, "", -1,
             name + " ends at byte " + std::to_string(end) + " of an arena of " +
                 std::to_string(program.stages[s]->arena_bytes),
             "enlarge the arena, or move the buffer into it");
    if (buffer.slot_stride != 0)
      report(s, "", -1, name + " moves with the slot, but there is only one of it",
             "use a slot stride of zero");
  }

  // Checks that no two results share bytes, for they are read at the end of a run.
  void checkResultsApart(uint32_t s) {
    std::vector<std::tuple<uint64_t, uint64_t, std::string>> list;
    for (const auto &result : program.stages[s]->results)
      if (result->buffer->size)
        list.push_back({result->buffer->offset, result->buffer->offset + result->buffer->size,
                        result->name});
    std::sort(list.begin(), list.end());
    for (size_t i = 1; i < list.size(); ++i)
      if (std::get<0>(list[i]) < std::get<1>(list[i - 1]))
        report(s, "", -1,
               "results '" + std::get<2>(list[i - 1]) + "' and '" + std::get<2>(list[i]) +
                   "' share arena bytes",
               "give every result bytes of its own until the end of the run");
  }

  // Checks the operands of an instruction against each other. They may be the same bytes where
  // the operation runs in place; a partial overlap makes it read what it has just written.
  void checkPartialOverlap(uint32_t s, const ProcedureT &procedure, size_t i) {
    const InstructionT &inst = *procedure.instructions[i];
    std::vector<ByteAccess> list;
    forEachAccess(inst, 0, [&](const ByteAccess &a) { list.push_back(a); });
    bool inPlaceAllowed = inst.body.type != Body::Matmul;
    for (size_t a = 0; a < list.size(); ++a) {
      for (size_t b = a + 1; b < list.size(); ++b) {
        const ByteAccess &x = list[a], &y = list[b];
        if ((!x.write && !y.write) || x.end <= y.begin || y.end <= x.begin)
          continue;
        if (inPlaceAllowed && x.begin == y.begin && x.end == y.end)
          continue;
        report(s, procedure.name, static_cast<int64_t>(i),
               describeBody(program, inst) + " writes operand " + std::to_string(x.write ? a : b) +
                   " over operand " + std::to_string(x.write ? b : a),
               "give the two disjoint bytes, or where the operation allows it the same ones");
      }
    }
  }

  void checkLive(uint32_t s) {
    const StageT &stage = *program.stages[s];
    uint64_t live = peakLiveBytes(program, s);
    if (live != stage.live_bytes)
      report(s, "", -1,
             "the plan says that at most " + std::to_string(stage.live_bytes) +
                 " bytes are live at once, its instructions need " + std::to_string(live),
             "set live_bytes to what peakLiveBytes() finds");
    if (live > stage.arena_bytes)
      report(s, "", -1,
             std::to_string(live) + " bytes are live at once in an arena of " +
                 std::to_string(stage.arena_bytes),
             "enlarge the arena");
  }

  const ProgramT &program;
  Findings findings;
};

} // namespace

uint64_t peakLiveBytes(const ProgramT &program, unsigned stageIndex) {
  const StageT &stage = *program.stages[stageIndex];
  Ranges persistent = persistentRanges(stage, [](const auto &, const auto &) {});
  uint64_t always = 0;
  for (auto [begin, end] : persistent)
    always += end - begin;

  size_t length = 1; // one more instant at the end, where the host reads the outputs
  for (const auto &entry : stage.table)
    length += stage.procedures[entry->procedure]->instructions.size();
  StageIntervals bytes(stage);
  Liveness liveness(bytes, length);
  for (const auto &state : stage.states)
    liveness.exclude(bytes.of(*state->buffer));
  for (const auto &scalar : stage.host_scalars)
    liveness.exclude(bytes.of(*scalar->buffer));
  int64_t time = -1;
  for (uint32_t row = 0; row < stage.table.size(); ++row) {
    const ProcedureT &procedure = *stage.procedures[stage.table[row]->procedure];
    for (uint32_t i = 0; i < procedure.instructions.size(); ++i) {
      std::optional<Message> message = messageOf(*procedure.instructions[i]);
      if (!message || !message->grouped)
        ++time; // the messages of a group are under way at once
      for (const IntervalAccess &a : bytes.of(row, i))
        if (a.read)
          liveness.read(a, time);
      for (const IntervalAccess &a : bytes.of(row, i))
        if (a.write)
          liveness.write(a, time);
    }
  }
  ++time;
  for (const BufferRefT *buffer : readByHost(stage))
    liveness.read(bytes.of(*buffer), time);
  return liveness.peak(always);
}

std::vector<Finding> checkMemory(const ProgramT &program) { return Memory(program).run(); }

} // namespace llmc::planfile
