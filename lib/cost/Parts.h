// Visits the parts of a model in the order in which stages have them. Tests: test/cost, test/numerics/predicted_traffic.py.
#ifndef LLMC_LIB_COST_PARTS_H
#define LLMC_LIB_COST_PARTS_H

#include "lib/cost/Step.h"

namespace llmc::cost {

// Calls visit(stage, part, chunk) for every part, in the order of the model; `chunk` is that of the stage.
template <class Visit> void visitParts(const Table &table, const Machine &machine, Visit visit) {
  std::vector<int64_t> layers = divideLayers(table, machine);
  size_t next = 0;
  for (size_t chunk = 0; chunk < layers.size(); ++chunk) {
    int64_t stage = int64_t(chunk) % machine.choices.mesh.pp, ofStage = int64_t(chunk) / machine.choices.mesh.pp;
    if (chunk == 0)
      visit(stage, table.before, ofStage);
    if (table.isOfPlan && layers[chunk] > 0)
      visit(stage, table.shared, ofStage);
    for (int64_t i = 0; i < layers[chunk]; ++i, ++next)
      visit(stage, table.kinds[table.layers[next]], ofStage);
    if (chunk + 1 == layers.size())
      visit(stage, table.after, ofStage);
  }
}

} // namespace llmc::cost

#endif // LLMC_LIB_COST_PARTS_H
