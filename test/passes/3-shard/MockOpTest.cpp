// An op of two results that no phase has heard of: differentiated, sharded, partitioned.
#include "dialects/graph/Build.h"
#include "mlir/Pass/PassManager.h"
#include "passes/2-train/Pipeline.h"
#include "passes/3-shard/Pipeline.h"
#include "passes/4-partition/Pipeline.h"
#include "test/dialects/graph/mock/SinCos.h"
#include "test/passes/3-shard/Steps.h"
#include "test/support/CommandLine.h"
#include <gtest/gtest.h>

using namespace mlir;

namespace llmc::test {
namespace {

// In each layer, what the last product reads becomes its sine plus its squared cosine:
// by the op of two results, or by one op for each.
void insertOp(ModuleOp module, bool mock) {
  module.walk([&](graph::RepeatOp repeat) {
    graph::MatmulOp last;
    for (auto op : repeat.getBlock().getOps<graph::MatmulOp>())
      last = op;
    OpBuilder builder(last);
    graph::Build b(builder, last.getLoc());
    Value x = last->getOperand(0), sine, cosine;
    if (mock) {
      auto both = graph::test::SinCosOp::create(builder, last.getLoc(), x);
      sine = both->getResult(0), cosine = both->getResult(1);
    } else {
      sine = graph::SinOp::create(builder, last.getLoc(), x);
      cosine = graph::CosOp::create(builder, last.getLoc(), x);
    }
    last->setOperand(0, b.add(sine, b.mul(cosine, cosine)));
  });
}

struct Steps {
  MLIRContext context;
  Model model;

  Steps() {
    loadDialects(context);
    context.loadDialect<graph::test::MockDialect>();
    model.batch = 4, model.width = 16, model.heads = 4, model.hidden = 32;
  }
  OwningOpRef<ModuleOp> trained(bool mock) {
    OwningOpRef<ModuleOp> module = parse(context, model.text());
    insertOp(*module, mock);
    PassManager train(&context);
    buildTrainPipeline(train, {});
    EXPECT_TRUE(succeeded(train.run(*module)));
    return module;
  }
};

TEST(MockOp, AnOpOfTwoResults) {
  Steps steps;
  OwningOpRef<ModuleOp> known = steps.trained(false), whole = steps.trained(true);
  std::mt19937 random(3);
  parallel::StepInput input = drawInput(*whole, steps.model, 2, random);
  auto expected = parallel::evaluateStep(*known, input), one = parallel::evaluateStep(*whole, input);
  EXPECT_TRUE(succeeded(expected) && succeeded(one));
  if (failed(expected) || failed(one))
    return;
  expectSame(*whole, *one, *expected, "beside two ops of one result");
  for (Mesh mesh : {Mesh{.tp = 4}, {.dp = 2, .pp = 2, .tp = 2}, {.dp = 4, .tp = 2, .ep = 4}}) {
    OwningOpRef<ModuleOp> module = cast<ModuleOp>((*whole)->clone());
    setMesh(*module, mesh);
    PassManager rest(&steps.context);
    buildShardPipeline(rest);
    buildPartitionPipeline(rest);
    bool partitioned = succeeded(rest.run(*module));
    EXPECT_TRUE(partitioned) << mesh.text() + ": phase 3 or 4 fails";
    // The columns of a block are cut through the op.
    int found = 0;
    module->walk([&](graph::test::SinCosOp op) {
      ++found;
      for (Value result : op->getResults())
        EXPECT_TRUE(graph::shapeOf(result).back() == steps.model.hidden / mesh.tp)
            << mesh.text() + ": the op is not cut";
    });
    EXPECT_TRUE(found > 0);
    auto got = partitioned ? parallel::evaluateStep(*module, input) : FailureOr<parallel::StepOutput>();
    EXPECT_TRUE(succeeded(got)) << mesh.text() + ": the step does not run";
    if (succeeded(got))
      expectSame(*whole, *got, *one, mesh.text());
  }
}

} // namespace
} // namespace llmc::test
