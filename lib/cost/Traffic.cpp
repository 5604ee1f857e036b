#include "lib/cost/Traffic.h"

#include "lib/cost/Step.h"

#include <algorithm>

using namespace llmc;
using namespace llmc::cost;

std::vector<Traffic> llmc::cost::trafficOf(const Table &table, const Machine &machine) {
  const Choices &choices = machine.choices;
  std::vector<Traffic> all;
  auto add = [&](int64_t stage, const Part &part) {
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
        found->bytes += c.bytes * double(choices.microBatches);
        found->calls += double(choices.microBatches);
      }
  };
  std::vector<int64_t> layers = divideLayers(table, machine);
  size_t next = 0;
  for (size_t chunk = 0; chunk < layers.size(); ++chunk) {
    int64_t stage = int64_t(chunk) % choices.mesh.pp;
    if (chunk == 0)
      add(stage, table.before);
    for (int64_t i = 0; i < layers[chunk]; ++i, ++next)
      add(stage, table.kinds[table.layers[next]]);
    if (chunk + 1 == layers.size())
      add(stage, table.after);
  }
  return all;
}
