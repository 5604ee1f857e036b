#include "runtime/cpu/SharedStates.h"

#include "lib/planfile/Trace.h"
#include "runtime/plan/Shard.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

using namespace llmc;
using namespace llmc::runtime;
using planfile::StateRole;
using planfile::StateShardT;

namespace {

constexpr uint64_t kAlign = 64; // as in arenas

// Finds the states of a stage that are filled once and then only read, sorted by offset.
class ReadOnlyStates {
public:
  ReadOnlyStates(const planfile::StageT &plan, const StageProgram &stage) {
    for (const auto &state : plan.states) {
      const planfile::BufferRefT &at = *state->buffer;
      // Keeps flat buffers and those of one expert of several (only_axes) in the arenas:
      // several tensors share their bytes.
      bool filled = (state->role == StateRole::Parameter || state->role == StateRole::Master) &&
                    !state->flat && state->only_axes.empty();
      if (at.size > 0)
        spans.push_back({at.offset, at.offset + at.size, filled ? state.get() : nullptr});
    }
    std::sort(spans.begin(), spans.end(),
              [](const Span &x, const Span &y) { return x.begin < y.begin; });
    for (size_t i = 1; i < spans.size(); ++i)
      if (spans[i].begin < spans[i - 1].end)
        spans[i].state = spans[i - 1].state = nullptr;
    for (const auto &scalar : plan.host_scalars)
      exclude(*scalar->buffer);
    for (const planfile::BufferRefT *buffer : planfile::readByHost(plan))
      exclude(*buffer);
    // Visits distinct (procedure, slots) once, since they touch equal bytes: a step of many
    // micro-batches has few.
    std::set<std::vector<uint32_t>> seen;
    std::vector<size_t> distinct;
    for (size_t e = 0; e < stage.table.size(); ++e) {
      const StageProgram::Entry &entry = stage.table[e];
      std::vector<uint32_t> run = {entry.procedure};
      for (uint32_t lane = 0; lane < entry.laneCount; ++lane)
        run.push_back(entry.lanes[lane].slot);
      if (seen.insert(std::move(run)).second)
        distinct.push_back(e);
    }
    for (size_t e : distinct) {
      const planfile::EntryT &entry = *plan.table[e];
      for (const auto &instruction : plan.procedures[entry.procedure]->instructions)
        planfile::forEachAccess(*instruction, entry, [&](const planfile::ByteAccess &a) {
          visit(a.begin, a.end, /*mayReachIn=*/!a.write);
        });
    }
    // Visits operands that are neither read nor written too: they are passed all the same,
    // and a buffer that begins inside of a state must resolve to its base in every slot.
    auto visitAt = [&](const Buffer &buffer, uint64_t begin) {
      visit(begin, begin + buffer.size, /*mayReachIn=*/buffer.stride == 0);
    };
    for (const Buffer &buffer : stage.buffers)
      visitAt(buffer, buffer.offset);
    for (size_t e : distinct) {
      const StageProgram::Entry &entry = stage.table[e];
      for (const auto &stream : stage.procedures[entry.procedure].byStream)
        for (uint32_t op : stream)
          for (uint32_t b = 0; b < stage.ops[op].buffers; ++b) {
            const Buffer &buffer = stage.buffers[stage.ops[op].firstBuffer + b];
            visitAt(buffer, buffer.offsetIn(entry.lanes));
          }
    }
  }

  std::vector<const StateShardT *> take() const {
    std::vector<const StateShardT *> result;
    for (const Span &span : spans)
      if (span.state)
        result.push_back(span.state);
    return result;
  }

private:
  struct Span {
    uint64_t begin, end;
    const StateShardT *state; // null: it stays in the arenas
  };
  void exclude(const planfile::BufferRefT &ref) {
    visit(ref.offset, ref.offset + ref.size, /*mayReachIn=*/false);
  }
  // Excludes states that overlap [begin, end), unless `mayReachIn` is set and the range lies
  // inside.
  void visit(uint64_t begin, uint64_t end, bool mayReachIn) {
    auto first = std::partition_point(spans.begin(), spans.end(),
                                      [&](const Span &span) { return span.end <= begin; });
    for (auto span = first; span != spans.end() && span->begin < end; ++span)
      if (!mayReachIn || begin < span->begin || span->end < end)
        span->state = nullptr;
  }

  std::vector<Span> spans; // sorted by begin, disjoint
};

// Identifies the contents of a state on a rank: equal keys mean equal bytes once filled.
using Key = std::tuple<uint32_t, int64_t, std::vector<int64_t>, planfile::DType,
                       std::vector<int64_t>, std::vector<int64_t>, std::vector<int64_t>>;

Key keyOf(const planfile::ProgramT &program, const StateShardT &state, uint32_t rank) {
  Shard shard(state, *program.mesh, planfile::coordinateOf(*program.mesh, rank));
  uint32_t stage = planfile::stageOf(program, rank);
  const planfile::ViewT &view = *planfile::viewOf(*program.stages[stage], state);
  return {view.source,        view.offset,       view.strides, state.dtype,
          state.global_shape, state.local_shape, shard.start};
}

// Changes the base and offset of each buffer that begins inside one of `states`.
void rebase(StageProgram &stage, const std::vector<const StateShardT *> &states) {
  for (Buffer &buffer : stage.buffers) {
    auto after = std::partition_point(states.begin(), states.end(), [&](const StateShardT *state) {
      return state->buffer->offset <= buffer.offset;
    });
    if (after == states.begin() || buffer.size == 0)
      continue;
    const planfile::BufferRefT &at = *(*(after - 1))->buffer;
    if (buffer.offset >= at.offset + at.size)
      continue;
    buffer.base = static_cast<uint32_t>(after - states.begin());
    buffer.offset -= at.offset;
  }
}

} // namespace

support::Result<SharedStates>
SharedStates::find(const planfile::ProgramT &program,
                   std::vector<std::unique_ptr<StageProgram>> &stages) {
  SharedStates result;
  std::vector<std::vector<const StateShardT *>> candidates;
  for (const auto &stage : stages)
    candidates.push_back(ReadOnlyStates(*stage->plan, *stage).take());
  uint32_t ranks = planfile::rankCount(*program.mesh);
  std::map<Key, uint32_t> holders;
  for (uint32_t rank = 0; rank < ranks; ++rank)
    for (const StateShardT *state : candidates[planfile::stageOf(program, rank)])
      ++holders[keyOf(program, *state, rank)];

  // Makes a base for each state that any rank of the stage shares.
  result.bases_.resize(stages.size());
  for (uint32_t stage = 0; stage < stages.size(); ++stage)
    for (const StateShardT *state : candidates[stage]) {
      bool shared = false;
      for (uint32_t rank = 0; rank < ranks && !shared; ++rank)
        shared =
            planfile::stageOf(program, rank) == stage && holders[keyOf(program, *state, rank)] > 1;
      if (shared)
        result.bases_[stage].push_back(state);
    }

  std::map<Key, uint32_t> known;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    const auto &states = result.bases_[planfile::stageOf(program, rank)];
    auto &parts = result.partOf_.emplace_back(states.size(), kNone);
    for (uint32_t i = 0; i < states.size(); ++i) {
      Key key = keyOf(program, *states[i], rank);
      if (holders[key] < 2)
        continue;
      auto [at, isNew] = known.try_emplace(key, static_cast<uint32_t>(result.parts_.size()));
      if (isNew) {
        result.parts_.push_back({result.bytes_, states[i]->buffer->size, rank, i + 1, 0});
        result.bytes_ += (states[i]->buffer->size + kAlign - 1) / kAlign * kAlign;
      }
      ++result.parts_[at->second].holders;
      parts[i] = at->second;
    }
  }
  for (const Part &part : result.parts_)
    result.bytesInArenas_ += part.size * part.holders;
  support::Result<Arena> memory = Arena::map(result.bytes_);
  if (!memory)
    return memory.takeError();
  result.memory_ = std::move(*memory);
  for (uint32_t stage = 0; stage < stages.size(); ++stage)
    rebase(*stages[stage], result.bases_[stage]);
  return result;
}

std::byte *SharedStates::at(uint32_t rank, uint32_t base) const {
  uint32_t part = partOf_[rank][base - 1];
  return part == kNone ? nullptr : memory_->data() + parts_[part].offset;
}

uint32_t SharedStates::baseOf(uint32_t stage, const StateShardT &state) const {
  const auto &states = bases_[stage];
  auto at = std::partition_point(states.begin(), states.end(), [&](const StateShardT *other) {
    return other->buffer->offset < state.buffer->offset;
  });
  return at != states.end() && *at == &state ? static_cast<uint32_t>(at - states.begin()) + 1 : 0;
}

bool SharedStates::fills(uint32_t rank, uint32_t base) const {
  uint32_t part = partOf_[rank][base - 1];
  return part == kNone || (parts_[part].rank == rank && parts_[part].base == base);
}

void SharedStates::seal() const { memory_->protect(); }
