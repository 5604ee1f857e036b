#include "lib/verify/Equivalence.h"

#include "lib/planfile/CheckWalk.h"

#include <algorithm>
#include <set>

namespace llmc::verify {

using namespace planfile;

namespace {

// Whether one of two instructions writes what the other touches, in any slot.
bool conflict(const InstructionT &a, const InstructionT &b, uint32_t slots) {
  for (uint32_t slot = 0; slot < slots; ++slot) {
    bool found = false;
    forEachAccess(a, slot, [&](const ByteAccess &x) {
      forEachAccess(b, slot, [&](const ByteAccess &y) {
        found |= (x.write || y.write) && x.begin < y.end && y.begin < x.end;
      });
    });
    if (found)
      return true;
  }
  return false;
}

// Messages of one direction and channel are told apart by their order alone.
bool sameChannel(const InstructionT &a, const InstructionT &b) {
  auto same = [](const auto *x, const auto *y) {
    return x && y && x->axis == y->axis && x->delta == y->delta && x->channel == y->channel;
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
    if (conflict(a, b, program.stages[second.stage]->slots) || sameChannel(a, b) ||
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

} // namespace

std::string equivalence(const Mutant &mutant, const ProgramT &program) {
  switch (mutant.fault) {
  case Fault::Wait:
    // happens-before holds without it.
    return "wait implied by another path: every two conflicting accesses stay ordered";
  case Fault::Drop:
  case Fault::Kind:
    return alone(mutant, program) ? "group of one rank" : "";
  case Fault::Overlap:
    return onePlace(mutant, program);
  case Fault::Invert:
    return inversion(mutant, program);
  default:
    return "";
  }
}

} // namespace llmc::verify
