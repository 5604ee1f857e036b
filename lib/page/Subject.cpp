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
  using Ends = std::tuple<int64_t, int64_t, uint32_t, uint32_t>; // stages, axis, channel, of messages between stages
  std::map<Ends, int64_t> sends;
  for (uint32_t stage = 0; stage < stages(); ++stage)
    byOp.emplace_back(forecast.stages[stage]->ops.size(), -1);
  auto otherEnd = [&](uint32_t stage, const planfile::Message &message) { return planfile::peerStage(program, stage, message); };
  for (size_t i = 0; i < index.traffic.size(); ++i)
    for (const report::Site &site : index.traffic[i].sites) {
      byOp[site.stage][opAt(site.stage, site.procedure, site.index)] = int64_t(i);
      if (auto message = planfile::messageOf(report::instructionAt(program, site)); message && message->axis == program.stage_axis)
        sends[{site.stage, otherEnd(site.stage, *message), message->axis, message->channel}] = int64_t(i);
    }
  for (uint32_t stage = 0; stage < stages(); ++stage)
    for (uint32_t op = 0; op < byOp[stage].size(); ++op)
      if (forecast.stages[stage]->ops[op].kind == Body::Recv) {
        planfile::Message message = *planfile::messageOf(forecast.stages[stage]->instructionOf(op));
        if (message.axis != program.stage_axis) {
          byOp[stage][op] = ringOf(stage, op);
          continue;
        }
        auto found = sends.find({otherEnd(stage, message), stage, message.axis, message.channel});
        byOp[stage][op] = found == sends.end() ? -1 : found->second;
      }
  findSpanning();
}

void Subject::findSpanning() {
  using Key = std::tuple<planfile::CollectiveKind, std::vector<uint32_t>, planfile::Phase, uint64_t, std::string, std::vector<std::string>>;
  std::map<Key, int64_t> listed;
  auto keyOf = [&](const planfile::InstructionT &instruction) {
    const planfile::CollectiveT &collective = *instruction.body.AsCollective();
    const planfile::OriginT &origin = *program.origins[instruction.origin];
    return Key(collective.kind, collective.axes, instruction.phase, planfile::payloadBytes(*program.mesh, collective), origin.op, origin.nodes);
  };
  for (bool lists : {true, false})
    for (uint32_t stage = 0; stage < stages(); ++stage)
      for (uint32_t op = 0; op < byOp[stage].size(); ++op) {
        const planfile::InstructionT &instruction = forecast.stages[stage]->instructionOf(op);
        const planfile::CollectiveT *collective = instruction.body.AsCollective();
        if (!collective || !planfile::stageGroup(program, *collective, stage).spansStages)
          continue;
        if (lists && byOp[stage][op] >= 0)
          listed.try_emplace(keyOf(instruction), byOp[stage][op]);
        else if (!lists && byOp[stage][op] < 0)
          if (auto found = listed.find(keyOf(instruction)); found != listed.end())
            byOp[stage][op] = found->second;
      }
}

int64_t Subject::ringOf(uint32_t stage, uint32_t op) const {
  const std::vector<runtime::Op> &ops = forecast.stages[stage]->ops;
  auto isMessage = [&](uint32_t i) { return ops[i].kind == Body::Send || ops[i].kind == Body::Recv; };
  for (uint32_t i = op; i-- > 0 && isMessage(i);)
    if (ops[i].kind == Body::Send)
      return byOp[stage][i];
  for (uint32_t i = op + 1; i < ops.size() && isMessage(i); ++i)
    if (ops[i].kind == Body::Send)
      return byOp[stage][i];
  return -1;
}
