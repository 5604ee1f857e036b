#include "lib/planfile/Shorten.h"

#include "lib/planfile/CheckWalk.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

namespace llmc::planfile {
namespace {

// Rows [first, end) of a table repeat every `rows`, for `batches` micro-batches more.
struct Middle {
  size_t first = 0, end = 0, rows = 0;
  uint32_t batches = 0;
  size_t rounds() const { return (end - first) / rows; }
};

// Is `b` what `a` is, `batches` later?
bool follows(const StageT &stage, const EntryT &a, const EntryT &b, uint32_t batches) {
  if (a.procedure != b.procedure || a.more.size() != b.more.size())
    return false;
  for (uint32_t lane = 0; lane <= a.more.size(); ++lane) {
    SlotRef from = slotOf(a, lane), to = slotOf(b, lane);
    uint32_t slots = stage.pools[from.pool()]->slots;
    if (to.pool() != from.pool() || to.micro_batch() != from.micro_batch() + batches ||
        to.slot() != (from.slot() + batches) % slots)
      return false;
  }
  return true;
}

// Looked for around the middle of the table.
std::optional<Middle> middleOf(const StageT &stage) {
  constexpr size_t kMostRows = 64;
  const auto &table = stage.table;
  size_t at = table.size() / 2;
  for (size_t rows = 1; rows <= kMostRows && at + rows < table.size(); ++rows) {
    uint32_t batches = table[at + rows]->micro_batch - table[at]->micro_batch;
    auto repeats = [&](size_t j) { return follows(stage, *table[j], *table[j + rows], batches); };
    if (table[at + rows]->micro_batch <= table[at]->micro_batch || !repeats(at))
      continue;
    Middle found{at, at, rows, batches};
    while (found.first > 0 && repeats(found.first - 1))
      --found.first;
    while (found.end + rows < table.size() && repeats(found.end))
      ++found.end;
    found.end += rows;
    if (found.rounds() > 2)
      return found;
  }
  return std::nullopt;
}

// A buffer in one of the slots of its pool; in none: pool -1.
struct Placed {
  uint64_t begin = 0, end = 0, stride = 0;
  int64_t pool = -1;
  uint32_t slot = 0;
  auto operator<=>(const Placed &) const = default;
};

// Every buffer of every instruction, in all slots that its lane may have.
std::set<Placed> buffersOf(const StageT &stage) {
  std::set<Placed> all;
  std::set<std::tuple<uint32_t, std::vector<uint32_t>>> seen;
  for (const auto &entry : stage.table) {
    std::vector<uint32_t> pools;
    for (uint32_t lane = 0; lane <= entry->more.size(); ++lane)
      pools.push_back(slotOf(*entry, lane).pool());
    if (!seen.insert({entry->procedure, pools}).second)
      continue;
    for (const auto &instruction : stage.procedures[entry->procedure]->instructions) {
      std::vector<ByteAccess> zero, one;
      forEachAccess(*instruction, 0, [&](const ByteAccess &a) { zero.push_back(a); });
      forEachAccess(*instruction, 1, [&](const ByteAccess &a) { one.push_back(a); });
      for (size_t i = 0; i < zero.size(); ++i) {
        uint64_t stride = one[i].begin - zero[i].begin;
        uint32_t pool = pools[zero[i].lane], slots = stride ? stage.pools[pool]->slots : 1;
        for (uint32_t slot = 0; slot < slots; ++slot)
          all.insert({zero[i].begin + slot * stride, zero[i].end + slot * stride, stride,
                      stride ? int64_t(pool) : -1, slot});
      }
    }
  }
  return all;
}

// Buffers that share a byte are of one slot, at the same distance in every slot, or all
// outside of slots.
bool slotsAreAlike(const StageT &stage) {
  std::set<Placed> all = buffersOf(stage);
  std::vector<Placed> open;
  for (const Placed &next : all) { // by first byte
    std::erase_if(open, [&](const Placed &one) { return one.end <= next.begin; });
    for (const Placed &one : open)
      if (one.pool != next.pool || one.slot != next.slot || one.stride != next.stride)
        return false;
    open.push_back(next);
  }
  return true;
}

// Leaves out `batches` micro-batches from row `at` on.
void cut(StageT &stage, const Middle &middle, size_t at, uint32_t batches) {
  auto begin = stage.table.begin() + static_cast<int64_t>(at);
  stage.table.erase(begin, begin + static_cast<int64_t>(batches / middle.batches * middle.rows));
  auto earlier = [&](uint32_t pool, uint32_t slot) {
    uint32_t slots = stage.pools[pool]->slots;
    return (slot + slots - batches % slots) % slots;
  };
  for (size_t row = at; row < stage.table.size(); ++row) {
    EntryT &entry = *stage.table[row];
    ProcedureKind kind = stage.procedures[entry.procedure]->kind;
    if (kind == ProcedureKind::Update || kind == ProcedureKind::Begin)
      continue; // of no micro-batch
    entry.micro_batch -= batches;
    entry.slot = earlier(entry.pool, entry.slot);
    for (SlotRef &other : entry.more)
      other = SlotRef(other.pool(), other.micro_batch() - batches,
                      earlier(other.pool(), other.slot()));
  }
}

} // namespace

std::unique_ptr<ProgramT> shortened(const ProgramT &program) {
  std::vector<Middle> middles;
  uint32_t together = 1; // micro-batches of a round of all stages
  size_t slots = 1;
  for (const auto &stage : program.stages) {
    std::optional<Middle> middle = middleOf(*stage);
    if (!middle)
      return nullptr;
    middles.push_back(*middle);
    together = std::lcm(together, middle->batches);
    for (const auto &pool : stage->pools)
      slots = std::max<size_t>(slots, pool->slots);
  }
  // Rounds that stay at each end.
  size_t keep = 2 * (slots + program.stages.size()) + 4;
  uint64_t batches = program.micro_batches;
  for (const Middle &middle : middles) {
    size_t rounds = middle.rounds(), free = rounds > 2 * keep ? rounds - 2 * keep : 0;
    batches = std::min<uint64_t>(batches, free * middle.batches);
  }
  batches = batches / together * together;
  bool worth = batches > program.micro_batches / 2;
  if (!worth || !std::all_of(program.stages.begin(), program.stages.end(),
                             [](const auto &stage) { return slotsAreAlike(*stage); }))
    return nullptr;
  auto brief = std::make_unique<ProgramT>(program);
  for (size_t s = 0; s < middles.size(); ++s)
    cut(*brief->stages[s], middles[s], middles[s].first + keep * middles[s].rows,
        static_cast<uint32_t>(batches));
  brief->micro_batches -= static_cast<uint32_t>(batches);
  brief->global_batch = program.global_batch / program.micro_batches * brief->micro_batches;
  return brief;
}

} // namespace llmc::planfile
