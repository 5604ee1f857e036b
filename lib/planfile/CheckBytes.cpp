#include "lib/planfile/CheckBytes.h"

#include <algorithm>
#include <map>

namespace llmc::planfile {

StageIntervals::StageIntervals(const StageT &stage) {
  for (const auto &state : stage.states)
    addOffsets(state->buffer->offset, state->buffer->offset + state->buffer->size);
  for (const auto &scalar : stage.host_scalars)
    addOffsets(scalar->buffer->offset, scalar->buffer->offset + scalar->buffer->size);
  for (const BufferRefT *buffer : readByHost(stage))
    addOffsets(buffer->offset, buffer->offset + buffer->size);

  std::vector<const EntryT *> entries; // the first of each run
  std::map<std::vector<uint32_t>, uint32_t> known; // by procedure and slots of the lanes
  for (const auto &entry : stage.table) {
    std::vector<uint32_t> key = {entry->procedure, entry->slot};
    for (const SlotRef &lane : entry->more)
      key.push_back(lane.slot());
    auto [it, added] = known.try_emplace(std::move(key), entries.size());
    runOf.push_back(it->second);
    if (!added)
      continue;
    entries.push_back(entry.get());
    for (const auto &inst : stage.procedures[entry->procedure]->instructions)
      forEachAccess(*inst, *entry, [&](const ByteAccess &a) { addOffsets(a.begin, a.end); });
  }
  std::sort(offsets.begin(), offsets.end());
  offsets.erase(std::unique(offsets.begin(), offsets.end()), offsets.end());
  std::vector<const Run *> same(stage.procedures.size(), nullptr); // in other slots
  runs.reserve(entries.size());
  for (const EntryT *entry : entries) {
    runs.push_back(walk(*stage.procedures[entry->procedure], *entry, same[entry->procedure]));
    same[entry->procedure] = &runs.back();
  }
}

void StageIntervals::addOffsets(uint64_t begin, uint64_t end) {
  if (begin == end)
    return;
  offsets.push_back(begin);
  offsets.push_back(end);
}

IntervalRange StageIntervals::range(uint64_t begin, uint64_t end) const {
  if (begin == end)
    return {};
  auto find = [&](uint64_t byte) {
    return static_cast<uint32_t>(std::lower_bound(offsets.begin(), offsets.end(), byte) -
                                 offsets.begin());
  };
  return {find(begin), find(end)};
}

// Looks up the intervals of each access; those that do not depend on the slot come from `same`
// (the procedure in other slots) if there is one.
StageIntervals::Run StageIntervals::walk(const ProcedureT &procedure, const EntryT &entry,
                                 const Run *same) const {
  Run run;
  run.begin.push_back(0);
  for (const auto &inst : procedure.instructions) {
    forEachAccess(*inst, entry, [&](const ByteAccess &a) {
      size_t i = run.accesses.size();
      if (same && !a.slotted)
        run.accesses.push_back(same->accesses[i]);
      else
        run.accesses.push_back({range(a.begin, a.end), a.read, a.write, a.slotted, a.lane});
    });
    run.begin.push_back(static_cast<uint32_t>(run.accesses.size()));
  }
  return run;
}

} // namespace llmc::planfile
