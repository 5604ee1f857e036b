#include "lib/planfile/ShortenedPlans.h"

#include "lib/planfile/Trace.h"

#include <algorithm>
#include <limits>
#include <map>

namespace llmc::planfile {
namespace {

// Represents the rows [begin, begin + count * length) of a table: `count` iterations, each
// `advance` micro-batches after the one before.
struct SteadyIterations {
  size_t begin = 0, length = 0, count = 0;
  uint32_t advance = 0;
};

bool onceAStep(const StageT &stage, const EntryT &entry) {
  ProcedureKind kind = stage.procedures[entry.procedure]->kind;
  return kind == ProcedureKind::Begin || kind == ProcedureKind::Update;
}

// Returns whether row r + length is row r for the micro-batches and slots `advance` further on.
bool repeats(const StageT &stage, size_t r, size_t length, uint32_t advance) {
  const EntryT &a = *stage.table[r], &b = *stage.table[r + length];
  if (a.procedure != b.procedure || a.more.size() != b.more.size() || onceAStep(stage, a))
    return false;
  for (uint32_t lane = 0; lane <= a.more.size(); ++lane) {
    SlotRef x = slotOf(a, lane), y = slotOf(b, lane);
    uint32_t slots = stage.pools[x.pool()]->slots;
    if (x.pool() != y.pool() || y.micro_batch() != x.micro_batch() + advance ||
        y.slot() != (x.slot() + advance) % slots)
      return false;
  }
  return true;
}

// Finds the iterations around the middle of the table; nullopt unless they are at least half of
// its rows.
std::optional<SteadyIterations> findTurns(const StageT &stage) {
  size_t rows = stage.table.size(), middle = rows / 2;
  for (size_t next = middle + 1; next < std::min(rows, middle + 256); ++next) {
    const EntryT &a = *stage.table[middle], &b = *stage.table[next];
    if (a.procedure != b.procedure || b.micro_batch <= a.micro_batch)
      continue;
    SteadyIterations turns{middle, next - middle, 0, b.micro_batch - a.micro_batch};
    size_t end = middle;
    while (end + turns.length < rows && repeats(stage, end, turns.length, turns.advance))
      ++end;
    while (turns.begin > 0 && repeats(stage, turns.begin - 1, turns.length, turns.advance))
      --turns.begin;
    turns.count = (end + turns.length - turns.begin) / turns.length;
    if (turns.count * turns.length * 2 >= rows)
      return turns;
  }
  return std::nullopt;
}

class SteadyStateShortener {
public:
  explicit SteadyStateShortener(const ProgramT &program) : program(program) {}

  std::optional<ShortenedPlans> run() {
    if (program.micro_batches < 64 || !findAll() || !slotsMove())
      return std::nullopt;
    std::optional<size_t> kept = turnsToKeep();
    if (!kept)
      return std::nullopt;
    size_t fewest = std::numeric_limits<size_t>::max();
    for (const SteadyIterations &turns : all)
      fewest = std::min(fewest, turns.count);
    if (fewest < 2 * *kept) // the gain is too small
      return std::nullopt;
    dropped = fewest - *kept;
    ShortenedPlans plans{program, program};
    for (size_t s = 0; s < all.size(); ++s)
      if (!shorten(s, *plans.once.stages[s], *plans.twice.stages[s]))
        return std::nullopt;
    for (ProgramT *plan : {&plans.once, &plans.twice}) {
      plan->global_batch -= microBatches() * (plan->global_batch / plan->micro_batches);
      plan->micro_batches -= microBatches();
    }
    return plans;
  }

private:
  uint32_t microBatches() const { return static_cast<uint32_t>(dropped) * all[0].advance; }

  bool findAll() {
    for (const auto &stage : program.stages) {
      std::optional<SteadyIterations> turns = findTurns(*stage);
      if (!turns || (!all.empty() && turns->advance != all[0].advance))
        return false;
      all.push_back(*turns);
    }
    return true;
  }

  // Returns whether all slots take part: what runs once a step must not name a slot, and the
  // iterations must use every slot of every pool.
  bool slotsMove() const {
    for (size_t s = 0; s < all.size(); ++s) {
      const StageT &stage = *program.stages[s];
      for (const auto &procedure : stage.procedures)
        if (procedure->kind == ProcedureKind::Begin || procedure->kind == ProcedureKind::Update)
          for (const auto &inst : procedure->instructions)
            if (namesSlot(*inst))
              return false;
      for (uint32_t pool = 0; pool < stage.pools.size(); ++pool)
        if (!usesAllSlots(stage, all[s], pool))
          return false;
    }
    return true;
  }

  static bool namesSlot(const InstructionT &inst) {
    const WaitT *wait = inst.body.AsWait();
    const RecordT *record = inst.body.AsRecord();
    bool slotted = (wait && !wait->whole_step) || (record && !record->whole_step) ||
                   inst.body.type == Body::Feed;
    forEachAccess(inst, 0, [&](const ByteAccess &a) { slotted |= a.slotted; });
    return slotted;
  }

  static bool usesAllSlots(const StageT &stage, const SteadyIterations &turns, uint32_t pool) {
    uint32_t slots = stage.pools[pool]->slots;
    std::vector<bool> used(slots, false);
    for (size_t r = turns.begin; r < turns.begin + turns.length; ++r)
      for (uint32_t lane = 0; lane <= stage.table[r]->more.size(); ++lane)
        if (SlotRef at = slotOf(*stage.table[r], lane); at.pool() == pool)
          for (uint32_t t = 0; t < slots; ++t)
            used[(at.slot() + uint64_t(t) * turns.advance) % slots] = true;
    return std::find(used.begin(), used.end(), false) == used.end();
  }

  // Returns how many iterations to keep: twice what orders between stages reach, with all slots.
  // Nullopt if stages meet in collectives too.
  std::optional<size_t> turnsToKeep() const {
    std::map<MessageKey, std::pair<int64_t, int64_t>> ends; // least and largest micro-batch
    size_t slots = 0;
    for (uint32_t s = 0; s < all.size(); ++s) {
      const StageT &stage = *program.stages[s];
      for (const auto &pool : stage.pools)
        slots = std::max<size_t>(slots, pool->slots);
      for (size_t r = all[s].begin; r < all[s].begin + all[s].length; ++r)
        for (const auto &inst : stage.procedures[stage.table[r]->procedure]->instructions) {
          if (const CollectiveT *collective = inst->body.AsCollective();
              collective && stageGroup(program, *collective, s).spansStages)
            return std::nullopt;
          if (!messageOf(*inst))
            continue;
          Node node;
          node.inst = inst.get();
          node.stage = s;
          int64_t at = slotOf(*stage.table[r], laneOf(*inst)).micro_batch();
          auto [it, isNew] = ends.try_emplace(messageKey(program, node), at, at);
          it->second = {std::min(it->second.first, at), std::max(it->second.second, at)};
        }
    }
    size_t reach = 0;
    for (const auto &[key, span] : ends)
      reach += static_cast<size_t>((span.second - span.first) / all[0].advance) + 1;
    return 2 * reach + 2 * slots + 8;
  }

  // Appends the row with its micro-batches reduced by `down` and its slots advanced by `on`.
  // False if a micro-batch would be negative.
  bool moved(const StageT &stage, const EntryT &from, uint32_t down, int64_t on,
             std::vector<std::unique_ptr<EntryT>> &to) const {
    auto entry = std::make_unique<EntryT>(from);
    to.push_back(nullptr);
    if (!onceAStep(stage, from)) {
      auto slot = [&](uint32_t pool, uint32_t old) {
        int64_t slots = stage.pools[pool]->slots;
        return static_cast<uint32_t>(((old + on) % slots + slots) % slots);
      };
      entry->slot = slot(from.pool, from.slot);
      entry->micro_batch -= down;
      for (SlotRef &lane : entry->more) {
        if (lane.micro_batch() < down)
          return false;
        lane = SlotRef(lane.pool(), lane.micro_batch() - down, slot(lane.pool(), lane.slot()));
      }
      if (from.micro_batch < down)
        return false;
    }
    to.back() = std::move(entry);
    return true;
  }

  bool shorten(size_t s, StageT &once, StageT &twice) const {
    const StageT &stage = *program.stages[s];
    size_t cut = all[s].begin + (all[s].count - dropped) * all[s].length;
    size_t rest = cut + dropped * all[s].length;
    uint32_t down = microBatches();
    once.table.clear();
    twice.table.clear();
    bool good = true;
    auto add = [&](auto &table, int64_t before, int64_t after) {
      for (size_t r = 0; r < cut; ++r)
        good &= moved(stage, *stage.table[r], 0, before, table);
      for (size_t r = rest; r < stage.table.size(); ++r)
        good &= moved(stage, *stage.table[r], down, after, table);
    };
    add(once.table, 0, -int64_t(down));
    add(twice.table, down, 0); // ends in the slots in which the whole step ends
    add(twice.table, 0, -int64_t(down));
    return good;
  }

  const ProgramT &program;
  std::vector<SteadyIterations> all; // of each stage
  size_t dropped = 0;     // iterations left out, of each stage
};

} // namespace

std::optional<ShortenedPlans> shortenSteadyState(const ProgramT &program) {
  return SteadyStateShortener(program).run();
}

} // namespace llmc::planfile
