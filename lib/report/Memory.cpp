#include "lib/report/Memory.h"

#include "lib/planfile/Trace.h"

#include <algorithm>
#include <set>

namespace llmc::report {
using namespace planfile;
namespace {

// Holds disjoint byte ranges.
class Bytes {
public:
  // Adds [begin, end); returns how many of its bytes are new.
  uint64_t add(uint64_t begin, uint64_t end) {
    if (begin >= end)
      return 0;
    uint64_t before = total;
    auto it = ranges.upper_bound(begin);
    if (it != ranges.begin() && std::prev(it)->second >= begin)
      --it;
    while (it != ranges.end() && it->first <= end) {
      begin = std::min(begin, it->first);
      end = std::max(end, it->second);
      total -= it->second - it->first;
      it = ranges.erase(it);
    }
    ranges[begin] = end;
    total += end - begin;
    return total - before;
  }
  void remove(uint64_t begin, uint64_t end) {
    auto it = ranges.upper_bound(begin);
    if (it != ranges.begin())
      --it;
    while (it != ranges.end() && it->first < end) {
      auto [low, high] = *it;
      if (high <= begin) {
        ++it;
        continue;
      }
      it = ranges.erase(it);
      total -= high - low;
      for (auto [from, to] : {std::pair(low, std::min(high, begin)), {std::max(low, end), high}})
        if (from < to) {
          ranges[from] = to;
          total += to - from;
        }
    }
  }
  uint64_t overlap(uint64_t begin, uint64_t end) const {
    uint64_t sum = 0;
    auto it = ranges.upper_bound(begin);
    if (it != ranges.begin())
      --it;
    for (; it != ranges.end() && it->first < end; ++it)
      if (it->second > begin)
        sum += std::min(end, it->second) - std::max(begin, it->first);
    return sum;
  }
  uint64_t size() const { return total; }

private:
  std::map<uint64_t, uint64_t> ranges; // begin -> end
  uint64_t total = 0;
};

constexpr const char *kKinds[] = {"weights",   "masters",       "gradients", "optimizer",
                                  "activations", "outputs",     "gathered",  "communication",
                                  "constants", "workspace",     "gaps"};

// Returns the bytes that forward and backward write, but for collectives: gradients are added there.
Bytes writtenByMicroBatches(const StageT &stage) {
  Bytes bytes;
  for (const auto &procedure : stage.procedures)
    if (procedure->kind != ProcedureKind::Begin && procedure->kind != ProcedureKind::Update)
      for (const auto &inst : procedure->instructions)
        if (inst->body.type != Body::Collective)
          forEachAccess(*inst, 0, [&](const ByteAccess &a) {
            if (a.write)
              bytes.add(a.begin, a.end);
          });
  return bytes;
}

bool isWeight(const StageT &stage, const BufferRefT &ref) {
  return std::any_of(stage.states.begin(), stage.states.end(), [&](const auto &state) {
    return state->role == StateRole::Parameter && state->buffer->offset <= ref.offset &&
           ref.offset < state->buffer->offset + state->buffer->size;
  });
}

// Returns the last instruction that reads bytes of `ref` before another than `from` writes some.
uint32_t lastReadOf(const ProcedureT &procedure, uint32_t from, const BufferRefT &ref) {
  uint32_t last = from;
  for (uint32_t i = from + 1; i < procedure.instructions.size(); ++i) {
    bool isWritten = false;
    forEachAccess(*procedure.instructions[i], 0, [&](const ByteAccess &a) {
      if (a.slotted || a.end <= ref.offset || ref.offset + ref.size <= a.begin)
        return;
      if (a.read)
        last = i;
      isWritten |= a.write;
    });
    if (isWritten)
      break;
  }
  return last;
}

// Returns the most bytes of weights that a forward or backward has gathered at once: from the gather
// to the last reader.
uint64_t gatheredBytes(const StageT &stage) {
  uint64_t most = 0;
  for (const auto &procedure : stage.procedures) {
    std::map<uint32_t, int64_t> changes; // by instruction
    for (uint32_t i = 0; i < procedure->instructions.size(); ++i)
      if (const CollectiveT *gather = procedure->instructions[i]->body.AsCollective();
          gather && gather->kind == CollectiveKind::AllGather && isWeight(stage, *gather->src) &&
          !isWeight(stage, *gather->dst)) {
        changes[i] += static_cast<int64_t>(gather->dst->size);
        changes[lastReadOf(*procedure, i, *gather->dst) + 1] -= static_cast<int64_t>(gather->dst->size);
      }
    int64_t held = 0;
    for (auto [at, change] : changes)
      most = std::max(most, static_cast<uint64_t>(held += change));
  }
  return most;
}

// Calls f(bytes) for what scatters write and gathers of new weights read beside states, and for what
// the last backward sums over ranks: parts on their way, and gradients in another type than theirs.
template <class F>
void forEachPart(const StageT &stage, F &&f) {
  for (const auto &procedure : stage.procedures)
    for (const auto &inst : procedure->instructions) {
      const CollectiveT *collective = inst->body.AsCollective();
      if (!collective)
        continue;
      if (collective->kind == CollectiveKind::ReduceScatter)
        f(*collective->dst);
      else if (collective->kind == CollectiveKind::AllReduce && isLast(procedure->kind) &&
               collective->src->tensor == 0)
        f(*collective->src);
      else if (collective->kind == CollectiveKind::AllGather && isWeight(stage, *collective->dst))
        f(*collective->src);
    }
}

const char *kindOf(StateRole role) {
  switch (role) {
  case StateRole::Parameter:
    return "weights";
  case StateRole::Master:
    return "masters";
  case StateRole::Moment1:
  case StateRole::Moment2:
    return "optimizer";
  case StateRole::Accumulator:
    return "gradients";
  }
  return "weights";
}

// Returns the backward pass of a micro-batch of a chunk: both parts in their order where it is
// split.
std::vector<const ProcedureT *> backwardOf(const StageT &stage, uint32_t chunk) {
  std::vector<const ProcedureT *> passes;
  auto add = [&](ProcedureKind kind) {
    for (const auto &procedure : stage.procedures)
      if (procedure->kind == kind && procedure->chunk == chunk) {
        passes.push_back(procedure.get());
        return true;
      }
    return false;
  };
  add(ProcedureKind::Backward) || add(ProcedureKind::BackwardLast);
  add(ProcedureKind::Weight) || add(ProcedureKind::WeightLast);
  return passes;
}

} // namespace

const std::vector<const char *> &kindsOfMemory() {
  static const std::vector<const char *> kinds(std::begin(kKinds), std::end(kKinds));
  return kinds;
}

MemoryByKind memoryOf(const ProgramT &program, uint32_t index) {
  const StageT &stage = *program.stages[index];
  MemoryByKind list;
  for (const char *kind : kKinds)
    list.push_back({kind, 0});
  Bytes seen;
  auto count = [&](std::string_view kind, uint64_t begin, uint64_t end) {
    for (auto &[name, bytes] : list)
      if (name == kind)
        bytes += seen.add(begin, end);
  };
  auto whole = [&](std::string_view kind, const BufferRefT &ref) {
    count(kind, ref.offset, ref.offset + ref.size);
  };
  // A rank's part of gradients that the update alone writes is what a reduce-scatter leaves of sums
  // that are there whole.
  Bytes added = writtenByMicroBatches(stage);
  for (const auto &state : stage.states) {
    const BufferRefT &ref = *state->buffer;
    bool isReceived = state->role == StateRole::Accumulator && state->flat &&
                      added.overlap(ref.offset, ref.offset + ref.size) == 0;
    whole(isReceived ? "communication" : kindOf(state->role), ref);
  }
  for (const BufferRefT *ref : readByHost(stage))
    whole("outputs", *ref);
  for (const auto &scalar : stage.host_scalars)
    whole("constants", *scalar->buffer);
  // Excludes what procedures other than the beginning write: it is no constant.
  Bytes begun, changed;
  auto walk = [&](auto visit) {
    for (const auto &procedure : stage.procedures)
      for (const auto &inst : procedure->instructions)
        forEachAccess(*inst, 0, [&](const ByteAccess &a) { visit(*procedure, *inst, a); });
  };
  walk([&](const ProcedureT &procedure, const InstructionT &inst, const ByteAccess &a) {
    if (!a.slotted && a.write)
      (procedure.kind == ProcedureKind::Begin ? begun : changed).add(a.begin, a.end);
  });
  std::set<std::vector<uint32_t>> entries; // procedure, slots of its lanes
  for (const auto &entry : stage.table) {
    std::vector<uint32_t> place = {entry->procedure};
    for (uint32_t lane = 0; lane <= entry->more.size(); ++lane)
      place.push_back(slotOf(*entry, lane).slot());
    if (entries.insert(std::move(place)).second)
      for (const auto &inst : stage.procedures[entry->procedure]->instructions)
        forEachAccess(*inst, *entry, [&](const ByteAccess &a) {
          if (a.slotted)
            count("activations", a.begin, a.end);
        });
  }
  forEachPart(stage, [&](const BufferRefT &ref) {
    if (ref.slot_stride == 0)
      whole("communication", ref);
  });
  walk([&](const ProcedureT &, const InstructionT &, const ByteAccess &a) {
    bool constant = begun.overlap(a.begin, a.end) == a.end - a.begin &&
                    changed.overlap(a.begin, a.end) == 0;
    count(constant ? "constants" : "workspace", a.begin, a.end);
  });
  // Scratch serves many tensors one after the other: of its bytes as many as gathered weights need
  // at once are theirs.
  auto of = [&](std::string_view kind) -> uint64_t & {
    return std::find_if(list.begin(), list.end(), [&](auto &entry) { return entry.first == kind; })
        ->second;
  };
  uint64_t scratch = of("workspace") + of("communication");
  of("gathered") = std::min(gatheredBytes(stage), scratch);
  of("communication") = std::min(of("communication"), scratch - of("gathered"));
  of("workspace") = scratch - of("gathered") - of("communication");
  list.back().second = stage.arena_bytes - std::min(stage.arena_bytes, seen.size());
  return list;
}

uint64_t savedBytes(const ProgramT &program, const Site &site) {
  const StageT &stage = *program.stages[site.stage];
  if (stage.procedures[site.procedure]->kind != ProcedureKind::Forward)
    return 0;
  // Collects the bytes that still hold what `site` wrote when the forward pass ends.
  Bytes held;
  const auto &forward = stage.procedures[site.procedure]->instructions;
  for (uint32_t i = site.index; i < forward.size(); ++i)
    forEachAccess(*forward[i], 0, [&](const ByteAccess &a) {
      if (!a.write)
        return;
      if (i == site.index)
        held.add(a.begin, a.end);
      else
        held.remove(a.begin, a.end);
    });
  // Counts those that the backward pass reads before it writes them.
  uint64_t saved = 0;
  for (const ProcedureT *procedure : backwardOf(stage, stage.procedures[site.procedure]->chunk))
    for (const auto &inst : procedure->instructions) {
      forEachAccess(*inst, 0, [&](const ByteAccess &a) {
        if (!a.read)
          return;
        saved += held.overlap(a.begin, a.end);
        held.remove(a.begin, a.end);
      });
      forEachAccess(*inst, 0, [&](const ByteAccess &a) {
        if (a.write)
          held.remove(a.begin, a.end);
      });
    }
  return saved;
}

} // namespace llmc::report
