#include "lib/verify/Equivalence.h"

#include "lib/planfile/CheckWalk.h"

#include <algorithm>
#include <set>

namespace llmc::verify {

using namespace planfile;

namespace {

// Whether one of two instructions of a procedure writes what the other touches, in any of
// its entries.
bool conflict(const InstructionT &a, const InstructionT &b, const PlanSite &site,
              const ProgramT &program) {
  bool found = false;
  for (const auto &entry : program.stages[site.stage]->table) {
    if (entry->procedure != site.procedure)
      continue;
    forEachAccess(a, *entry, [&](const ByteAccess &x) {
      forEachAccess(b, *entry, [&](const ByteAccess &y) {
        found |= (x.write || y.write) && x.begin < y.end && y.begin < x.end;
      });
    });
  }
  return found;
}

// Messages of one direction and channel are told apart by their order alone.
bool sameChannel(const InstructionT &a, const InstructionT &b) {
  auto same = [](const auto *x, const auto *y) {
    return x && y && x->axis == y->axis && x->delta == y->delta && x->wrap == y->wrap &&
           x->channel == y->channel;
  };
  return same(a.body.AsSend(), b.body.AsSend()) || same(a.body.AsRecv(), b.body.AsRecv());
}

// So are collectives of one communicator: all members must change alike. The ranks
// of a stage do; of several stages, each must be among the sites.
bool membersDisagree(const Mutant &mutant, const ProgramT &program, const InstructionT &a,
                     const InstructionT &b) {
  if (!a.body.AsCollective() || !b.body.AsCollective() || communicatorOf(a) != communicatorOf(b))
    return false;
  std::set<uint32_t> changed;
  for (const PlanSite &site : mutant.sites)
    changed.insert(site.stage);
  Group group = stageGroup(program, *a.body.AsCollective(), mutant.sites.front().stage);
  return group.spansStages && !std::includes(changed.begin(), changed.end(),
                                             group.stages.begin(), group.stages.end());
}

// Neighbours of one stream with no event between: nothing sees one without the
// other, so their order matters only to each other.
std::string inversion(const Mutant &mutant, const ProgramT &program) {
  for (size_t i = 0; i < mutant.sites.size(); ++i) {
    PlanSite second = mutant.sites[i];
    second.instruction = mutant.neighbours[i];
    const InstructionT &a = instructionAt(program, mutant.sites[i]);
    const InstructionT &b = instructionAt(program, second);
    if (conflict(a, b, second, program) || sameChannel(a, b) ||
        membersDisagree(mutant, program, a, b))
      return "";
  }
  return "neighbours over disjoint bytes, or that only read common ones";
}

bool alone(const Mutant &mutant, const ProgramT &program) {
  return std::all_of(mutant.sites.begin(), mutant.sites.end(), [&](const PlanSite &site) {
    const auto *collective = instructionAt(program, site).body.AsCollective();
    return collective && stageGroup(program, *collective, site.stage).size == 1;
  });
}

// happens-before holds with one place: all accesses are ordered and no micro-batch
// reads what another one left. It lets sums over micro-batches pass, so there must
// be none.
std::string onePlace(const Mutant &mutant, const ProgramT &program) {
  const PlanSite &site = mutant.sites.front();
  ProgramT copy(program);
  const BufferRefT *lost = buffersOf(instructionAt(copy, site))[mutant.other];
  uint64_t begin = lost->offset, end = begin + lost->size;
  for (const auto &procedure : program.stages[site.stage]->procedures)
    for (const auto &inst : procedure->instructions) {
      bool read = false, written = false;
      forEachAccess(*inst, 0, [&](const ByteAccess &a) {
        bool inside = a.begin < end && begin < a.end;
        read |= inside && a.read;
        written |= inside && a.write;
      });
      if (read && written)
        return "";
    }
  return "one place is enough: each micro-batch is done with it before the next begins";
}

using Ranges = std::vector<std::pair<uint64_t, uint64_t>>; // disjoint [begin, end)

bool meets(const Ranges &ranges, uint64_t begin, uint64_t end) {
  return std::any_of(ranges.begin(), ranges.end(),
                     [&](auto range) { return range.first < end && begin < range.second; });
}

void subtract(Ranges &ranges, uint64_t begin, uint64_t end) {
  Ranges left;
  for (auto [first, last] : ranges) {
    if (first < std::min(last, begin))
      left.push_back({first, std::min(last, begin)});
    if (std::max(first, end) < last)
      left.push_back({std::max(first, end), last});
  }
  ranges = std::move(left);
}

// Whether what row `row` of the table writes at `site` to two buffers is overwritten
// before anybody reads it, in this step or the next.
bool unread(const ProgramT &program, const PlanSite &site, size_t row, Ranges ranges) {
  const StageT &stage = *program.stages[site.stage];
  for (size_t at = 0; at < 2 * stage.table.size() && !ranges.empty(); ++at) {
    const EntryT &entry = *stage.table[at % stage.table.size()];
    const auto &list = stage.procedures[entry.procedure]->instructions;
    size_t first = at < row ? list.size() : at == row ? site.instruction + 1 : 0;
    for (size_t i = first; i < list.size(); ++i) {
      bool read = false;
      forEachAccess(*list[i], entry,
                    [&](const ByteAccess &a) { read |= a.read && meets(ranges, a.begin, a.end); });
      if (read)
        return false;
      forEachAccess(*list[i], entry, [&](const ByteAccess &a) {
        if (a.write)
          subtract(ranges, a.begin, a.end);
      });
    }
    bool stepEnds = (at + 1) % stage.table.size() == 0;
    if (stepEnds && at >= row)
      for (const BufferRefT *buffer : readByHost(stage))
        if (meets(ranges, buffer->offset, buffer->offset + buffer->size))
          return false;
  }
  return std::none_of(stage.states.begin(), stage.states.end(), [&](const auto &state) {
    return meets(ranges, state->buffer->offset, state->buffer->offset + state->buffer->size);
  });
}

// Two results of one launch that change places, of which nobody reads either.
std::string exchangeUnread(const Mutant &mutant, const ProgramT &program) {
  for (const PlanSite &site : mutant.sites) {
    const auto *launch =
        site.instruction < 0 ? nullptr : instructionAt(program, site).body.AsLaunch();
    if (!launch || launch->operands[mutant.value]->access != Access::Write ||
        launch->operands[mutant.other]->access != Access::Write)
      return "";
    const BufferRefT &a = *launch->operands[mutant.value]->buffer,
                     &b = *launch->operands[mutant.other]->buffer;
    const StageT &stage = *program.stages[site.stage];
    if (a.size != b.size)
      return "";
    for (size_t row = 0; row < stage.table.size(); ++row) {
      const EntryT &entry = *stage.table[row];
      auto at = [&](const BufferRefT &ref) -> std::pair<uint64_t, uint64_t> {
        uint64_t begin = ref.offset + slotOf(entry, ref.lane).slot() * ref.slot_stride;
        return {begin, begin + ref.size};
      };
      if (entry.procedure == site.procedure && !unread(program, site, row, {at(a), at(b)}))
        return "";
    }
  }
  return "two results of which nobody reads either";
}

// What is gone has written nothing that anybody reads.
std::string removedUnread(const Mutant &mutant, const ProgramT &program) {
  for (const PlanSite &site : mutant.sites) {
    const StageT &stage = *program.stages[site.stage];
    const InstructionT &inst = instructionAt(program, site);
    for (size_t row = 0; row < stage.table.size(); ++row) {
      if (stage.table[row]->procedure != site.procedure)
        continue;
      Ranges written;
      forEachAccess(inst, *stage.table[row], [&](const ByteAccess &a) {
        if (a.write)
          written.push_back({a.begin, a.end});
      });
      if (written.empty() || !unread(program, site, row, written))
        return "";
    }
  }
  return "an instruction of which nobody reads what it writes";
}

} // namespace

std::string equivalence(const Mutant &mutant, const ProgramT &program) {
  switch (mutant.fault) {
  case Fault::Wait:
    // happens-before holds without it.
    return "wait implied by another path: every two conflicting accesses stay ordered";
  case Fault::Late:
    // So do launch-order and the pairs of messages.
    return "receive needed later only: every two conflicting accesses stay ordered";
  case Fault::Torn:
    return "a group that need not be one: every queue runs to its end without it";
  case Fault::Pool:
    return "pools that are never in use at once: each read finds its own micro-batch and chunk";
  case Fault::Drop:
  case Fault::Kind:
    return alone(mutant, program) ? "group of one rank" : "";
  case Fault::Overlap:
    return onePlace(mutant, program);
  case Fault::Invert:
    return inversion(mutant, program);
  case Fault::Exchange:
    return exchangeUnread(mutant, program);
  case Fault::Launch:
  case Fault::Product:
    return removedUnread(mutant, program);
  default:
    return "";
  }
}

} // namespace llmc::verify
