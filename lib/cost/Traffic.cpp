#include "lib/cost/Traffic.h"

#include "lib/cost/Step.h"

#include <algorithm>

using namespace llmc;
using namespace llmc::cost;

namespace {

// Calls visit(stage, part) for every part of the model, in order.
template <class Visit> void visitParts(const Table &table, const Machine &machine, Visit visit) {
  std::vector<int64_t> layers = divideLayers(table, machine);
  size_t next = 0;
  for (size_t chunk = 0; chunk < layers.size(); ++chunk) {
    int64_t stage = int64_t(chunk) % machine.choices.mesh.pp;
    if (chunk == 0)
      visit(stage, table.before);
    for (int64_t i = 0; i < layers[chunk]; ++i, ++next)
      visit(stage, table.kinds[table.layers[next]]);
    if (chunk + 1 == layers.size())
      visit(stage, table.after);
  }
}

} // namespace

std::vector<StageFlops> llmc::cost::flopsOf(const Table &table, const Machine &machine) {
  std::vector<StageFlops> stages(machine.choices.mesh.pp);
  const double microBatches = double(machine.choices.microBatches);
  visitParts(table, machine, [&](int64_t stage, const Part &part) {
    for (const Work *work : {&part.forward, &part.backward})
      for (const Product &product : work->products)
        stages[stage].products += microBatches * product.flops();
    for (const Attention &attention : part.forward.attentions)
      stages[stage].attention += microBatches * attention.flops();
    // Computes scores again: five products in place of two.
    for (const Attention &attention : part.backward.attentions)
      stages[stage].attention += 2.5 * microBatches * attention.flops();
  });
  return stages;
}

std::vector<Traffic> llmc::cost::trafficOf(const Table &table, const Machine &machine) {
  std::vector<Traffic> all;
  const double microBatches = double(machine.choices.microBatches);
  visitParts(table, machine, [&](int64_t stage, const Part &part) {
    for (bool backward : {false, true})
      for (const Collective &c : (backward ? part.backward : part.forward).collectives) {
        if (c.group.size <= 1 || c.role == Role::Data)
          continue;
        auto same = [&](const Traffic &t) {
          return t.stage == stage && t.role == c.role && t.kind == c.kind && t.backward == backward;
        };
        auto found = std::find_if(all.begin(), all.end(), same);
        if (found == all.end())
          found = all.insert(all.end(), {stage, c.role, c.kind, backward, 0, 0});
        found->bytes += c.bytes * microBatches;
        found->calls += microBatches;
      }
  });
  return all;
}
