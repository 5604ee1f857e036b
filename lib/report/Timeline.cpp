#include "lib/report/Timeline.h"

#include "lib/planfile/Trace.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

namespace llmc::report {
using namespace planfile;

char letterOf(ProcedureKind kind) {
  switch (kind) {
  case ProcedureKind::Forward:
    return 'F';
  case ProcedureKind::Backward:
  case ProcedureKind::BackwardLast:
    return 'B';
  case ProcedureKind::Weight:
  case ProcedureKind::WeightLast:
    return 'W';
  case ProcedureKind::Update:
    return 'U';
  case ProcedureKind::Begin:
  case ProcedureKind::Exchange:
    break;
  }
  return 0;
}

namespace {

std::vector<Cell> cellsOf(const StageT &stage) {
  std::vector<Cell> cells;
  for (uint32_t row = 0; row < stage.table.size(); ++row) {
    const EntryT &entry = *stage.table[row];
    const ProcedureT &procedure = *stage.procedures[entry.procedure];
    if (char kind = letterOf(procedure.kind))
      cells.push_back({kind, procedure.chunk, entry.micro_batch, row, 0});
  }
  return cells;
}

// Returns the chunk and micro-batch of a message.
std::pair<uint32_t, uint32_t> pairOf(const ProgramT &program, const Trace &trace,
                                     const Node &node) {
  SlotRef slot = slotOf(trace.entryOf(node), laneOf(*node.inst));
  return {program.stages[node.stage]->pools[slot.pool()]->chunk, slot.micro_batch()};
}

// Names a cell whose message another cell needs.
struct Need {
  uint32_t stage;
  size_t cell;
};

class Columns {
public:
  explicit Columns(const ProgramT &program) : program(program) {
    for (const auto &stage : program.stages)
      timeline.stages.push_back(cellsOf(*stage));
    needs.resize(timeline.stages.size());
    for (size_t s = 0; s < needs.size(); ++s)
      needs[s].resize(timeline.stages[s].size());
    collect();
  }

  Timeline run() {
    std::vector<size_t> placed(needs.size(), 0);
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t s = 0; s < needs.size(); ++s)
        while (placed[s] < needs[s].size() && place(s, placed))
          moved = true;
    }
    count();
    return std::move(timeline);
  }

private:
  // Collects the needs of all messages. The sender's cell is the last one of the micro-batch up
  // to the message, the receiver's the first one from it on.
  void collect() {
    Trace trace = buildTrace(program, 1);
    for (const Node &node : trace.nodes) {
      if (node.inst->body.type != Body::Recv || node.partner < 0 ||
          node.inst->body.AsRecv()->axis != program.stage_axis) // ranks of a ring are in one column
        continue;
      const Node &from = trace.nodes[node.partner];
      auto sender = find(from.stage, from.entry, pairOf(program, trace, from), /*before=*/true);
      auto receiver = find(node.stage, node.entry, pairOf(program, trace, node), /*before=*/false);
      if (sender && receiver)
        needs[node.stage][*receiver].push_back({from.stage, *sender});
    }
  }

  std::optional<size_t> find(uint32_t stage, uint32_t entry,
                             std::pair<uint32_t, uint32_t> pair, bool before) const {
    const std::vector<Cell> &cells = timeline.stages[stage];
    std::optional<size_t> found;
    for (size_t i = 0; i < cells.size(); ++i) {
      const Cell &cell = cells[i];
      bool same = cell.kind != 'U' && std::pair(cell.chunk, cell.microBatch) == pair;
      if (same && before && cell.entry <= entry)
        found = i;
      if (same && !before && cell.entry >= entry)
        return i;
    }
    return found;
  }

  // Assigns the next column of a stage; false if a sender has no column yet.
  bool place(size_t s, std::vector<size_t> &placed) {
    Cell &cell = timeline.stages[s][placed[s]];
    int64_t column = placed[s] ? timeline.stages[s][placed[s] - 1].column + 1 : 0;
    for (const Need &need : needs[s][placed[s]]) {
      if (need.cell >= placed[need.stage])
        return false;
      column = std::max(column, timeline.stages[need.stage][need.cell].column + 1);
    }
    cell.column = column;
    ++placed[s];
    return true;
  }

  void count() {
    int64_t busy = 0;
    for (const auto &cells : timeline.stages)
      for (const Cell &cell : cells)
        if (cell.kind != 'U') {
          timeline.columns = std::max(timeline.columns, cell.column + 1);
          ++busy;
        }
    timeline.cells = timeline.columns * static_cast<int64_t>(timeline.stages.size());
    timeline.empty = timeline.cells - busy;
  }

  const ProgramT &program;
  Timeline timeline;
  std::vector<std::vector<std::vector<Need>>> needs;
};

} // namespace

Timeline timelineOf(const ProgramT &program) { return Columns(program).run(); }

uint32_t inFlight(const ProgramT &program, uint32_t stage) {
  std::vector<Cell> cells = cellsOf(*program.stages[stage]);
  std::map<std::pair<uint32_t, uint32_t>, size_t> last;
  for (size_t i = 0; i < cells.size(); ++i)
    if (cells[i].kind != 'U')
      last[{cells[i].chunk, cells[i].microBatch}] = i;
  std::set<std::pair<uint32_t, uint32_t>> alive;
  size_t most = 0;
  for (size_t i = 0; i < cells.size(); ++i) {
    if (cells[i].kind == 'U')
      continue;
    std::pair pair(cells[i].chunk, cells[i].microBatch);
    alive.insert(pair);
    most = std::max(most, alive.size());
    if (last[pair] == i)
      alive.erase(pair);
  }
  return static_cast<uint32_t>(most);
}

} // namespace llmc::report
