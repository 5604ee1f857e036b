// Makes tables of uniform models, and machines, for tests of prices.
#ifndef LLMC_TEST_COST_TABLES_H
#define LLMC_TEST_COST_TABLES_H

#include "lib/cost/Step.h"

namespace llmc::test {

// Returns a model of equal layers without embedding and head: `tokens` of a micro-batch, divided over tp.
inline cost::Table uniformTable(int layers, double width, double tokens, double tp = 1) {
  cost::Table table;
  cost::Part layer;
  double inner = 4 * width / tp;
  layer.forward.products = {{tokens, inner, width}, {tokens, width, inner}};
  for (const cost::Product &p : layer.forward.products) {
    layer.backward.products.push_back({p.rows, p.depth, p.columns});
    layer.backward.products.push_back({p.depth, p.columns, p.rows});
    layer.backward.products.back().ofWeights = true;
  }
  layer.forward.bytes = 20 * tokens * width;
  layer.backward.bytes = 30 * tokens * width;
  layer.forward.operations = 20;
  layer.backward.operations = 40;
  if (tp > 1)
    for (cost::Work *work : {&layer.forward, &layer.backward})
      work->collectives.push_back(
          {cost::Transfer::AllReduce, cost::Role::Tensor, {int64_t(tp), 1}, 2 * tokens * width});
  layer.parameters.dense = 8 * width * width / tp;
  layer.wholeParameters = 8 * width * width;
  layer.inputs = 12 * tokens * width;
  layer.carried = 2 * tokens * width;
  table.kinds = {layer};
  table.layers.assign(layers, 0);
  table.tokens = tokens;
  table.width = width;
  return table;
}

// Returns a machine of built-in accelerators with every choice at its default.
inline cost::Machine machineOf(const char *gpu, planfile::MeshSizes mesh, int64_t microBatches) {
  cost::Machine machine;
  auto cluster = cost::findGpu(gpu);
  if (cluster)
    machine.cluster = *cluster;
  machine.choices.mesh = mesh;
  machine.choices.microBatches = microBatches;
  machine.choices.sequence = 2048;
  return machine;
}

} // namespace llmc::test

#endif // LLMC_TEST_COST_TABLES_H
