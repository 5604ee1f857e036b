#include "lib/report/Traffic.h"

#include "lib/planfile/AxisNames.h"
#include "lib/planfile/Trace.h"

#include <map>
#include <set>
#include <tuple>

namespace llmc::report {
using namespace planfile;

const InstructionT &instructionAt(const ProgramT &program, const Site &site) {
  return *program.stages[site.stage]->procedures[site.procedure]->instructions[site.index];
}

std::vector<uint64_t> runsOf(const StageT &stage) {
  std::vector<uint64_t> runs(stage.procedures.size(), 0);
  for (const auto &entry : stage.table)
    ++runs[entry->procedure];
  return runs;
}

void forEachInstruction(const ProgramT &program,
                        const std::function<void(const Site &, const InstructionT &)> &visit) {
  for (uint32_t s = 0; s < program.stages.size(); ++s) {
    const StageT &stage = *program.stages[s];
    std::vector<uint64_t> runs = runsOf(stage);
    for (uint32_t p = 0; p < stage.procedures.size(); ++p)
      for (uint32_t i = 0; runs[p] && i < stage.procedures[p]->instructions.size(); ++i)
        visit({s, p, i, runs[p]}, *stage.procedures[p]->instructions[i]);
  }
}

int64_t elementsOf(const std::vector<int64_t> &shape) {
  int64_t count = 1;
  for (int64_t dim : shape)
    count *= dim;
  return count;
}

std::string originTitle(const OriginT &origin) {
  return origin.nodes.empty() ? origin.op : origin.nodes.front();
}

namespace {

// Returns the chunk that sends a message: that of the pool of its lane where its procedure runs.
uint32_t chunkOf(const ProgramT &program, const Site &site, const InstructionT &inst) {
  const StageT &stage = *program.stages[site.stage];
  for (const auto &entry : stage.table)
    if (entry->procedure == site.procedure)
      return stage.pools[slotOf(*entry, laneOf(inst)).pool()]->chunk;
  return stage.procedures[site.procedure]->chunk;
}

// Names each entry by axes, phase and node; by the stage too where that is not unique, then by a
// number. Messages are named by stages, where these run several chunks by stage and chunk.
void nameAll(const ProgramT &program, std::vector<Traffic> &list) {
  std::map<std::string, int> stems, used;
  bool chunked = std::any_of(program.stages.begin(), program.stages.end(),
                             [](const auto &stage) { return stage->chunks.size() > 1; });
  auto stemOf = [&](const Traffic &t) {
    if (t.isSend && chunked)
      return support::text("send/", t.stage, ".", t.chunk, "-", t.toStage, ".", t.toChunk);
    if (t.isSend)
      return support::text("send/", t.stage, "-", t.toStage);
    std::string axes = joinedUserNames(*program.mesh, t.axes);
    return support::text(axes, "/", toString(t.phase), "/",
                         originTitle(*program.origins[t.origin]));
  };
  for (const Traffic &t : list)
    ++stems[stemOf(t)];
  for (Traffic &t : list) {
    t.name = stemOf(t);
    if (stems[t.name] > 1 && !t.isSend)
      t.name += support::text("@", t.stage);
    int number = ++used[t.name];
    if (number > 1)
      t.name += support::text("#", number);
  }
}

} // namespace

std::vector<Traffic> listTraffic(const ProgramT &program) {
  using Key = std::tuple<int, std::vector<uint32_t>, uint32_t, uint32_t, uint32_t, int, uint64_t,
                         std::string, std::vector<std::string>, std::string, std::string>;
  std::vector<Traffic> list;
  std::map<Key, size_t> known;
  forEachInstruction(program, [&](const Site &site, const InstructionT &inst) {
    Traffic t;
    t.stage = site.stage;
    t.phase = inst.phase;
    t.origin = inst.origin;
    if (const CollectiveT *collective = inst.body.AsCollective()) {
      Group group = stageGroup(program, *collective, site.stage);
      if (group.size < 2 || (group.spansStages && group.stages.front() != site.stage))
        return;
      t.kind = toString(collective->kind);
      t.axes = collective->axes;
      t.bytes = payloadBytes(*program.mesh, *collective);
    } else if (const SendT *send = inst.body.AsSend()) {
      // A message around a ring stays in its stage: all ranks of a group have a part in it.
      t.isSend = send->axis == program.stage_axis;
      t.kind = t.isSend ? "send" : "shift";
      t.axes = {send->axis};
      t.toStage = static_cast<uint32_t>(peerStage(program, site.stage, *messageOf(inst)));
      t.chunk = chunkOf(program, site, inst);
      // Count one chunk further around the ring, backward one less.
      t.toChunk = t.chunk + (t.isSend && send->wrap ? (t.phase == Phase::Forward ? 1 : -1) : 0);
      for (const auto &part : send->parts)
        t.bytes += part->size;
    } else {
      return;
    }
    const OriginT &origin = *program.origins[inst.origin];
    const CollectiveT *collective = inst.body.AsCollective();
    int kind = collective ? static_cast<int>(collective->kind) : t.isSend ? -1 : -2;
    Key key{kind,      t.axes,       t.stage,      t.toStage, t.chunk, int(t.phase), t.bytes,
            origin.op, origin.nodes, origin.tactic, t.isSend ? "" : origin.rule};
    auto [it, isNew] = known.try_emplace(key, list.size());
    if (isNew)
      list.push_back(std::move(t));
    list[it->second].perStep += site.times;
    list[it->second].sites.push_back(site);
  });
  nameAll(program, list);
  return list;
}

} // namespace llmc::report
