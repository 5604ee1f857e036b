// Makes tables of uniform models, and machines, for tests of prices.
#ifndef LLMC_TEST_COST_TABLES_H
#define LLMC_TEST_COST_TABLES_H

#include "lib/cost/Step.h"

#include <algorithm>
#include <iterator>

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

// Returns the same model as our own plans have it, in bf16 over `dp` ranks with a stage of ZeRO.
inline cost::Table planTable(cost::Table table, int64_t dp = 1, int64_t tp = 1, int zero = 0) {
  table.isOfPlan = true;
  table.sentForward = table.sentBackward = 2 * table.tokens * table.width;
  for (cost::Part &part : table.kinds) {
    double elements = part.parameters.dense;
    double masters = zero >= 1 ? elements / double(dp) : elements;
    part.states = {2 * (zero == 3 ? masters : elements), 4 * masters, 8 * masters, 4 * (zero >= 2 ? masters : elements)};
    // Waits for each collective at once, behind all products.
    for (cost::Work *work : {&part.forward, &part.backward}) {
      for (size_t i = 0; i < work->products.size(); ++i)
        work->order.push_back({cost::Entry::OfProduct, i});
      double kernels = work->operations - double(work->products.size()) - double(work->collectives.size());
      for (double i = 0; i < kernels; ++i)
        work->order.push_back({cost::Entry::OfKernel, 0, work->bytes / kernels});
      for (size_t i = 0; i < work->collectives.size(); ++i)
        work->order.push_back({cost::Entry::OfCollective, i, 0, work->order.size() + 1});
    }
    part.kept.toBackward = part.inputs;
    part.keepsInput = true;
    part.update.bytes = 30 * masters;
    part.update.operations = 4;
    cost::Collective sum{zero ? cost::Transfer::ReduceScatter : cost::Transfer::AllReduce, cost::Role::Data, {dp, tp}, 4 * elements};
    cost::Collective gather{cost::Transfer::AllGather, cost::Role::Data, {dp, tp}, 2 * elements};
    (zero >= 2 ? part.backward : part.update).collectives.push_back(sum);
    if (zero == 3) {
      part.forward.collectives.push_back(gather);
      part.backward.collectives.push_back(gather);
    } else if (zero) {
      part.update.collectives.push_back(gather);
    }
  }
  return table;
}

// Returns a table of our own plans whose gradients of weights are apart from the rest of backward.
inline cost::Table splitBackward(cost::Table table) {
  for (cost::Part &part : table.kinds) {
    auto &all = part.backward.products;
    std::copy_if(all.begin(), all.end(), std::back_inserter(part.weightGradients.products), [](const cost::Product &p) { return p.ofWeights; });
    part.weightGradients.operations = double(part.weightGradients.products.size());
    part.backward.operations -= part.weightGradients.operations;
    std::erase_if(part.backward.order, [](const cost::Entry &e) { return e.kind == cost::Entry::OfProduct; });
    std::erase_if(all, [](const cost::Product &p) { return p.ofWeights; });
  }
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
