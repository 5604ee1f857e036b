// Compares symbolic runs of two plans that agree in everything but instructions and tables.
#include "lib/verify/mutation/Equivalence.h"

#include <algorithm>
#include <map>

namespace llmc::verify {

using namespace planfile;

namespace {

// Serializes a plan without its instructions and the tables that order them: the meaning of
// states, inputs and results, which symbols do not represent.
std::string frameOf(const ProgramT &program) {
  ProgramT copy(program);
  for (auto &stage : copy.stages) {
    stage->table.clear();
    stage->live_bytes = 0;
    for (auto &procedure : stage->procedures)
      procedure->instructions.clear();
  }
  return writeProgram(copy);
}

// Returns whether each micro-batch keeps one slot of each pool of its chunk from its first row to
// its last, and no other micro-batch has it meanwhile. A table that violates this means something
// else, even where the bytes come out right.
bool slotsAreKept(const StageT &stage) {
  struct Held {
    uint32_t slot;
    size_t first, last; // rows of the table
  };
  std::map<std::pair<uint32_t, uint32_t>, Held> lives; // by pool and micro-batch
  auto forEachLane = [&](bool exchanges, auto f) {
    for (size_t row = 0; row < stage.table.size(); ++row) {
      const EntryT &entry = *stage.table[row];
      const ProcedureT &procedure = *stage.procedures[entry.procedure];
      bool once = procedure.kind == ProcedureKind::Begin || procedure.kind == ProcedureKind::Update;
      if (once || (procedure.kind == ProcedureKind::Exchange) != exchanges)
        continue;
      for (uint32_t lane = 0; lane <= entry.more.size(); ++lane)
        if (SlotRef at = slotOf(entry, lane); !f(row, procedure, at))
          return false;
    }
    return true;
  };
  bool kept = forEachLane(false, [&](size_t row, const ProcedureT &procedure, SlotRef at) {
    Held &held = lives.try_emplace({at.pool(), at.micro_batch()}, Held{at.slot(), row, row})
                     .first->second;
    held.last = row;
    return held.slot == at.slot() && stage.pools[at.pool()]->chunk == procedure.chunk;
  });
  // Messages may arrive before the first row and leave with the row after the last.
  kept = kept && forEachLane(true, [&](size_t, const ProcedureT &, SlotRef at) {
    auto found = lives.find({at.pool(), at.micro_batch()});
    return found != lives.end() && found->second.slot == at.slot();
  });
  if (!kept)
    return false;
  for (auto a = lives.begin(); a != lives.end(); ++a)
    for (auto b = std::next(a); b != lives.end() && b->first.first == a->first.first; ++b)
      if (a->second.slot == b->second.slot && a->second.first <= b->second.last &&
          b->second.first <= a->second.last)
        return false;
  return true;
}

bool slotsAreKept(const ProgramT &program) {
  return std::all_of(program.stages.begin(), program.stages.end(),
                     [](const auto &stage) { return slotsAreKept(*stage); });
}

std::string_view whatItChanges(Fault fault) {
  switch (fault) {
  case Fault::Wait:
    return "wait implied by another path";
  case Fault::Late:
    return "receive needed later only";
  case Fault::Torn:
    return "group that need not be one";
  case Fault::Pool:
    return "pools that are never in use at once";
  case Fault::Drop:
  case Fault::Kind:
    return "group of one rank";
  case Fault::Overlap:
    return "one place is enough";
  case Fault::Invert:
    return "neighbours that do not need each other";
  case Fault::Exchange:
  case Fault::Scratch:
    return "places that nobody reads";
  case Fault::Launch:
  case Fault::Product:
  case Fault::Fill:
  case Fault::Move:
    return "instruction without effect";
  default:
    return "change without effect";
  }
}

} // namespace

Equivalence::Equivalence(const ProgramT &program)
    : expected(runSymbolically(program)), frame(frameOf(program)) {
  if (expected.fault.empty() && !slotsAreKept(program))
    expected.fault = "a micro-batch does not keep its slot";
}

std::string Equivalence::reason(const Mutant &mutant, const ProgramT &changed) const {
  if (!expected.fault.empty() || !checkBounds(changed) || frameOf(changed) != frame ||
      !slotsAreKept(changed))
    return "";
  SymbolicRun run = runSymbolically(changed);
  if (!run.fault.empty() || run.values != expected.values)
    return "";
  return std::string(whatItChanges(mutant.fault)) + ": same symbols, all accesses ordered";
}

} // namespace llmc::verify
