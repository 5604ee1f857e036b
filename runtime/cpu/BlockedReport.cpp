// Describes where each rank stands when no instruction can run any more.
#include "runtime/cpu/Executor.h"

#include <algorithm>

using namespace llmc;
using namespace llmc::runtime;
using planfile::Body;
using support::text;

std::string Executor::describe(const Rank &rank, const Stream &stream, const Op &op) const {
  const StageProgram &stage = *rank.program;
  const StageProgram::Entry &entry = stage.table[stream.entry];
  const planfile::OriginT &origin = *program_.origins[op.origin];
  size_t index = static_cast<size_t>(&op - stage.ops.data()) -
                 stage.procedures[entry.procedure].firstOp;
  std::string what = text("rank ", rank.id, " (stage ", stage.stage, "), stream ",
                          unsigned(op.stream), ": ", planfile::toString(op.kind),
                          ", instruction ", index, " of '",
                          stage.plan->procedures[entry.procedure]->name, "', table entry ",
                          stream.entry, " (micro-batch ", entry.lanes[op.lane].microBatch,
                          ", slot ", entry.lanes[op.lane].slot, "), from ", origin.op.empty() ? "the step" : origin.op);
  for (const std::string &node : origin.nodes)
    what += text(" '", node, "'");
  return what;
}

std::string Executor::waitsFor(const Rank &rank, const Stream &stream, const Op &op,
                               uint32_t member) const {
  const Flight &flight = stream.flights[member];
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

// Describes the current op of each member, of at most 16. All have arrived, so none moves
// meanwhile.
std::string Executor::membersOf(const Communicator &communicator, uint8_t stream) const {
  constexpr size_t most = 16;
  std::string list;
  for (size_t i = 0; i < communicator.ranks().size() && i < most; ++i) {
    const Rank &rank = *ranks_[communicator.ranks()[i]];
    const Stream &at = rank.streams[stream];
    const auto &procedure = rank.program->procedures[rank.program->table[at.entry].procedure];
    const Op &op = rank.program->ops[procedure.byStream[stream][at.position]];
    list += "\n  " + describe(rank, at, op);
  }
  return list;
}

std::string Executor::blockedReport() {
  constexpr size_t most = 64; // lines, which suffice to show a cycle
  std::string report = "all ranks are blocked:";
  size_t lines = 0;
  for (const auto &rank : ranks_)
    for (size_t s = 0; s < rank->streams.size(); ++s)
      if (const Op *op = current(*rank, rank->streams[s], static_cast<uint8_t>(s)))
        for (uint32_t i = 0; i < op->members; ++i) {
          const Stream &stream = rank->streams[s];
          if (!stream.flights[i].ended && ++lines <= most)
            report += text("\n  ", describe(*rank, stream, op[i]), "; ",
                           waitsFor(*rank, stream, op[i], i));
        }
  if (lines > most)
    report += text("\n  and ", lines - most, " more");
  return report;
}
