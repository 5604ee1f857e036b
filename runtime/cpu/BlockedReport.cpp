#include "runtime/cpu/BlockedReport.h"

using namespace llmc;
using namespace llmc::runtime;
using planfile::Body;
using support::text;

namespace {

// Returns what `op` waits for, which is member `member` of its message group.
std::string waitsFor(const Rank &rank, const Stream &stream, const Op &op, uint32_t member) {
  const PendingTransfer &flight = stream.flights[member];
  switch (op.kind) {
  case Body::Collective: {
    if (!flight.posted)
      return "not begun";
    std::string who;
    for (uint32_t other : rank.members[op.index].communicator->missing(flight.number))
      who += text(who.empty() ? "" : ", ", other);
    return "waits for rank " + who;
  }
  case Body::Send:
  case Body::Recv: {
    const MessageEnd &end = rank.messages[op.index];
    return text(flight.posted ? "waits for rank " : "waits for its channel to rank ",
                end.channel->peer(end.side));
  }
  case Body::Wait: {
    const StageProgram &stage = *rank.program;
    const WaitTarget &wait = stage.waits[stage.table[stream.entry].firstWait + op.index];
    size_t p = stage.table[stream.entry].procedure;
    size_t index = static_cast<size_t>(&op - stage.ops.data()) - stage.procedures[p].firstOp;
    const auto *body = stage.plan->procedures[p]->instructions[index]->body.AsWait();
    return text("waits for event ", body->event, " (", rank.events[wait.counter], " of ",
                wait.target, " recorded)");
  }
  default:
    return "could run";
  }
}

} // namespace

std::string runtime::describe(const planfile::ProgramT &program, const Rank &rank,
                              const Stream &stream, const Op &op) {
  const StageProgram &stage = *rank.program;
  const StageProgram::Entry &entry = stage.table[stream.entry];
  const planfile::OriginT &origin = *program.origins[op.origin];
  size_t index =
      static_cast<size_t>(&op - stage.ops.data()) - stage.procedures[entry.procedure].firstOp;
  std::string what =
      text("rank ", rank.id, " (stage ", stage.stage, "), stream ", unsigned(op.stream), ": ",
           planfile::toString(op.kind), ", instruction ", index, " of '",
           stage.plan->procedures[entry.procedure]->name, "', table entry ", stream.entry,
           " (micro-batch ", entry.lanes[op.lane].microBatch, ", slot ", entry.lanes[op.lane].slot,
           "), from ", origin.op.empty() ? "the step" : origin.op);
  for (const std::string &node : origin.nodes)
    what += text(" '", node, "'");
  return what;
}

std::string runtime::membersOf(const LocalRanks &ranks, const Communicator &communicator,
                               uint8_t stream) {
  constexpr size_t most = 16;
  std::string list;
  for (size_t i = 0; i < communicator.ranks().size() && i < most; ++i) {
    const Rank &rank = ranks[communicator.ranks()[i]];
    const Stream &at = rank.streams[stream];
    const auto &procedure = rank.program->procedures[rank.program->table[at.entry].procedure];
    const Op &op = rank.program->ops[procedure.byStream[stream][at.position]];
    list += "\n  " + describe(ranks.program(), rank, at, op);
  }
  return list;
}

std::string runtime::blockedReport(const LocalRanks &ranks) {
  constexpr size_t most = 64; // lines, which suffice to show a cycle
  std::string report = "all ranks are blocked:";
  size_t lines = 0;
  for (const auto &rank : ranks.all())
    for (size_t s = 0; s < rank->streams.size(); ++s)
      if (const Op *op = rank->current(s))
        for (uint32_t i = 0; i < op->members; ++i) {
          const Stream &stream = rank->streams[s];
          if (!stream.flights[i].ended && ++lines <= most)
            report += text("\n  ", describe(ranks.program(), *rank, stream, op[i]), "; ",
                           waitsFor(*rank, stream, op[i], i));
        }
  if (lines > most)
    report += text("\n  and ", lines - most, " more");
  return report;
}
