#include "lib/page/Subject.h"

#include "lib/planfile/Trace.h"

#include <map>
#include <tuple>

using namespace llmc;
using namespace llmc::page;
using planfile::Body;

Subject::Subject(const planfile::ProgramT &program, const cost::Machine &machine, const simulate::Forecast &forecast)
    : program(program), machine(machine), forecast(forecast), index(program) {
  chooseRanks();
  findTraffic();
}

void Subject::chooseRanks() {
  ranks.assign(stages(), nullptr);
  for (const simulate::RankTime &rank : forecast.timeline.ranks)
    if (!ranks[rank.stage] || rank.compute > ranks[rank.stage]->compute)
      ranks[rank.stage] = &rank;
  for (const auto &stage : program.stages) {
    entries.emplace_back(stage->table.size());
    computed.emplace_back(stage->table.size());
  }
  // An entry runs from when its first instruction began, after what it waited for, to the end of its last one.
  for (size_t i = 0; i < forecast.timeline.events.size(); ++i) {
    const runtime::TraceEvent &event = forecast.timeline.events[i];
    uint32_t stage = planfile::stageOf(program, event.rank);
    Body kind = forecast.stages[stage]->ops[event.op].kind;
    if (ranks[stage]->rank != event.rank || kind == Body::Wait || kind == Body::Record)
      continue;
    double begin = double(forecast.timeline.moved[i]) * 1e-9, end = double(event.end) * 1e-9;
    entries[stage][event.entry].add(begin, end);
    if (forecast.stages[stage]->ops[event.op].stream == 0)
      computed[stage][event.entry].add(begin, end);
  }
}

uint32_t Subject::opAt(uint32_t stage, uint32_t procedure, uint32_t place) const {
  return forecast.stages[stage]->procedures[procedure].firstOp + place;
}

void Subject::findTraffic() {
  using Ends = std::tuple<int64_t, int64_t, uint32_t, uint32_t>; // stages, axis, channel
  std::map<Ends, int64_t> sends;
  for (uint32_t stage = 0; stage < stages(); ++stage)
    byOp.emplace_back(forecast.stages[stage]->ops.size(), -1);
  auto otherEnd = [&](uint32_t stage, const planfile::Message &message) {
    return message.axis == program.stage_axis ? planfile::peerStage(program, stage, message) : int64_t(stage);
  };
  for (size_t i = 0; i < index.traffic.size(); ++i)
    for (const report::Site &site : index.traffic[i].sites) {
      byOp[site.stage][opAt(site.stage, site.procedure, site.index)] = int64_t(i);
      if (auto message = planfile::messageOf(report::instructionAt(program, site)))
        sends[{site.stage, otherEnd(site.stage, *message), message->axis, message->channel}] = int64_t(i);
    }
  for (uint32_t stage = 0; stage < stages(); ++stage)
    for (uint32_t op = 0; op < byOp[stage].size(); ++op)
      if (forecast.stages[stage]->ops[op].kind == Body::Recv) {
        planfile::Message message = *planfile::messageOf(forecast.stages[stage]->instructionOf(op));
        auto found = sends.find({otherEnd(stage, message), stage, message.axis, message.channel});
        byOp[stage][op] = found == sends.end() ? -1 : found->second;
      }
}

char Subject::letterOf(planfile::ProcedureKind kind) {
  using planfile::ProcedureKind;
  switch (kind) {
  case ProcedureKind::Forward:
    return 'F';
  case ProcedureKind::Backward:
  case ProcedureKind::BackwardLast:
    return 'B';
  case ProcedureKind::Weight:
  case ProcedureKind::WeightLast:
    return 'W';
  case ProcedureKind::Update:
    return 'U';
  default:
    return 0;
  }
}
