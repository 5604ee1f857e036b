// The table of our own plans, extracted from one layer of each kind and angles that are not computed, beside that of all layers
// with angles: FLOPs, kernels, bytes of states, of each collective and of what is kept are equal.
#include "Models.h"

#include "lib/pipeline/Pipeline.h"
#include "lib/predict/ExtractPlanTable.h"

#include <gtest/gtest.h>

#include <map>

using namespace llmc;
using namespace llmc::test;

namespace {

cost::Table tableOf(const std::string &model, CompileOptions options, bool oneOfEach) {
  LoadedContext context;
  options.angles = oneOfEach ? AngleTables::Sized : AngleTables::Computed;
  std::vector<int64_t> bodies;
  auto module = partitioned(context, model, options, oneOfEach, bodies);
  if (!module || failed(findKernels(*module, options)))
    return {};
  return predict::extractPlanTable(*module, bodies);
}

// Adds up what all parts have.
struct Sums {
  std::map<std::string, double> by;

  explicit Sums(const cost::Table &table) {
    add(table.before), add(table.after);
    for (int kind : table.layers)
      add(table.kinds[kind]);
  }
  void add(const cost::Part &part) {
    for (const cost::Work *work : {&part.forward, &part.backward, &part.weightGradients}) {
      for (const cost::Product &product : work->products)
        by["products"] += product.flops(), by["sums"] += product.accumulates;
      for (const cost::Attention &attention : work->attentions)
        by["attention"] += attention.flops();
      by["operations"] += work->operations, by["bytes"] += work->bytes;
    }
    by["bytes of the update"] += part.update.bytes;
    for (const cost::Work *work : {&part.forward, &part.backward, &part.update})
      for (const cost::Collective &c : work->collectives)
        by["collective " + std::to_string(int(c.kind)) + " of role " + std::to_string(int(c.role))] += c.bytes;
    by["weights"] += part.states.weights, by["masters"] += part.states.masters, by["moments"] += part.states.moments;
    by["received"] += part.states.received;
    by["gradients"] += part.states.gradients, by["kept"] += part.kept.sum(), by["parameters"] += part.wholeParameters;
  }
};

TEST(PlanTable, OneLayerOfEachKindStandsForAll) {
  for (const char *model : {"gpt2", "llama", "qwen3", "mixtral", "nemotron", "phi3", "gemma3_text"})
    for (int zero : {0, 1, 2, 3})
      for (Recompute recompute : {Recompute::None, Recompute::Full}) {
        CompileOptions options;
        options.dp = 2, options.tp = 2, options.zero = zero, options.recompute = recompute;
        Sums all(tableOf(model, options, false)), one(tableOf(model, options, true));
        std::string where = std::string(model) + ", zero " + std::to_string(zero) + ", recompute " + std::to_string(int(recompute));
        EXPECT_GT(all.by["products"], 0) << where;
        EXPECT_EQ(one.by.size(), all.by.size()) << where;
        for (auto [what, sum] : all.by)
          // Reads scalars for each op on the states of all layers of a kind.
          EXPECT_NEAR(one.by[what], sum, (what == "bytes of the update" ? 0.01 : 1e-9) * sum) << where << ", " << what;
      }
}

} // namespace
