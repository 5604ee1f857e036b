#include "lib/cost/Traffic.h"

#include "lib/cost/Parts.h"

#include <algorithm>

using namespace llmc;
using namespace llmc::cost;

std::vector<StageFlops> llmc::cost::flopsOf(const Table &table, const Machine &machine) {
  std::vector<StageFlops> stages(machine.choices.mesh.pp);
  const double microBatches = double(machine.choices.microBatches);
  visitParts(table, machine, [&](int64_t stage, const Part &part, int64_t) {
    for (const Work *work : {&part.forward, &part.backward, &part.weightGradients}) {
      for (const Product &product : work->products)
        stages[stage].products += microBatches * product.flops();
      for (const Attention &attention : work->attentions)
        stages[stage].attention += microBatches * attention.flops();
    }
  });
  return stages;
}

std::vector<Traffic> llmc::cost::trafficOf(const Table &table, const Machine &machine) {
  std::vector<Traffic> all;
  const double microBatches = double(machine.choices.microBatches);
  auto add = [&](int64_t stage, const Collective &c, Phase phase, double times) {
    auto same = [&](const Traffic &t) {
      return t.stage == stage && t.role == c.role && t.kind == c.kind && t.phase == phase;
    };
    auto found = std::find_if(all.begin(), all.end(), same);
    if (found == all.end())
      found = all.insert(all.end(), {stage, c.role, c.kind, phase, 0, 0});
    found->bytes += times * c.bytes;
    found->calls += times * c.calls;
  };
  visitParts(table, machine, [&](int64_t stage, const Part &part, int64_t) {
    for (auto [work, phase] : {std::pair(&part.forward, Phase::Forward), {&part.backward, Phase::Backward}, {&part.weightGradients, Phase::Backward}})
      for (const Collective &c : work->collectives)
        if (c.group.size > 1 && (table.isOfPlan || c.role != Role::Data))
          add(stage, c, phase, microBatches);
    for (const Collective &c : part.update.collectives)
      if (c.group.size > 1 && c.role != Role::Stages)
        add(stage, c, c.role == Role::Data && c.kind != Transfer::AllGather ? Phase::Backward : Phase::Update, 1);
  });
  return all;
}
