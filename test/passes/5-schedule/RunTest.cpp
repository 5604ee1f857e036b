// Phases 2 to 5: the plan, run on all ranks in any legal order, is the step of
// the model.
#include "dialects/plan/Plan.h"
#include "lib/verify/interpret/PlanInterpreter.h"
#include "mlir/Pass/PassManager.h"
#include "passes/2-train/Pipeline.h"
#include "test/passes/3-shard/Steps.h"
#include "test/passes/5-schedule/Plans.h"
#include "test/support/CommandLine.h"
#include <gtest/gtest.h>

using namespace mlir;

namespace llmc::test {
namespace {

// The step of the plan's model before it is sharded. Null after a failed check.
OwningOpRef<ModuleOp> trained(MLIRContext &context, const Plan &plan) {
  OwningOpRef<ModuleOp> module = parse(context, plan.model.text());
  TrainOptions options;
  options.adamw = plan.adamw;
  PassManager passes(&context);
  buildTrainPipeline(passes, options);
  bool ok = succeeded(passes.run(*module));
  EXPECT_TRUE(ok) << plan.describe() + ": phase 2 fails";
  return ok ? std::move(module) : OwningOpRef<ModuleOp>();
}

TEST(Run, APlanIsTheStepOfItsModel) {
  for (int i = 0; i < draws().count; ++i) {
    unsigned seed = draws().seed + i;
    std::mt19937 random(seed);
    Plan plan = drawPlan(random, 16);
    std::string what = "seed " + std::to_string(seed) + ", " + plan.describe();
    MLIRContext context;
    loadDialects(context);
    OwningOpRef<ModuleOp> scheduled = schedule(context, plan), whole = trained(context, plan);
    if (!scheduled || !whole)
      continue;
    parallel::StepInput input = drawInput(*whole, plan.model, plan.microBatches, random);
    auto expected = parallel::evaluateStep(*whole, input);
    auto got = verify::interpretStep(*scheduled, input, random);
    EXPECT_TRUE(succeeded(expected) && succeeded(got)) << what + ": the step does not run";
    if (succeeded(expected) && succeeded(got))
      expectSame(*whole, *got, *expected, what);
  }
}

// The comparison can fail: events are all that holds a stream back, so without
// waits some order of streams gives other numbers.
TEST(Run, WithoutWaitsStepsDiffer) {
  Plan plan;
  plan.mesh.dp = plan.mesh.pp = 2;
  plan.microBatches = 3;
  plan.bucketBytes = 1;
  MLIRContext context;
  loadDialects(context);
  OwningOpRef<ModuleOp> scheduled = schedule(context, plan), whole = trained(context, plan);
  if (!scheduled || !whole)
    return;
  scheduled->walk([](plan::WaitOp op) { op.erase(); });
  std::mt19937 random(1);
  parallel::StepInput input = drawInput(*whole, plan.model, plan.microBatches, random);
  auto expected = parallel::evaluateStep(*whole, input);
  int differ = 0;
  for (int i = 0; i < 10 && succeeded(expected); ++i) {
    auto got = verify::interpretStep(*scheduled, input, random);
    differ += failed(got) || !differences(*whole, *got, *expected).empty();
  }
  EXPECT_TRUE(differ > 0) << "ten random orders without a wait give the right step";
}

} // namespace
} // namespace llmc::test
