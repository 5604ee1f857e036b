#include "test/passes/5-schedule/Plans.h"

#include "dialects/plan/Plan.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/PassManager.h"
#include "passes/2-train/Pipeline.h"
#include "passes/3-shard/Pipeline.h"
#include "passes/4-partition/Pipeline.h"
#include "passes/5-schedule/Passes.h"
#include "passes/6-emit/Emit.h"
#include <gtest/gtest.h>

using namespace mlir;

namespace llmc::test {

std::string Plan::describe() const {
  auto text = [](int64_t n) { return std::to_string(n); };
  return "mesh " + mesh.text() + ", " + schedule + ", " +
         text(microBatches) + " micro-batches, buckets of " + text(bucketBytes) + ", " +
         (adamw ? "adamw" : "sgd") + ", zero " + text(zero) + ", gathered " + text(gatherAhead) +
         " ahead, " + model.describe();
}

Plan drawPlan(std::mt19937 &random, int64_t maxRanks) {
  Plan plan;
  plan.mesh = drawMesh(random, maxRanks);
  plan.model = drawModel(random, plan.mesh);
  plan.schedule = random() % 2 ? "1f1b" : "gpipe";
  plan.microBatches = 1 + random() % 6;
  plan.bucketBytes = int64_t(1) << random() % 14;
  plan.adamw = random() % 3 != 0;
  plan.zero = static_cast<int>(random() % 4);
  plan.gatherAhead = static_cast<int64_t>(random() % 3);
  return plan;
}

OwningOpRef<ModuleOp> schedule(MLIRContext &context, const Plan &plan) {
  std::string messages;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() == DiagnosticSeverity::Error)
      messages += "\n  " + diagnostic.str();
    return success();
  });
  OwningOpRef<ModuleOp> module = parse(context, plan.model.text());
  setMesh(*module, plan.mesh);
  TrainOptions train;
  train.adamw = plan.adamw;
  BucketReductionsOptions buckets;
  buckets.bucketBytes = plan.bucketBytes;
  BuildTableOptions table;
  table.schedule = plan.schedule;
  table.microBatches = plan.microBatches;
  PassManager passes(&context);
  buildTrainPipeline(passes, train);
  buildShardPipeline(passes, {plan.zero});
  buildPartitionPipeline(passes);
  // As buildSchedulePipeline, but for the size of buckets.
  passes.addPass(createUnrollLayers());
  passes.addPass(createLowerCollectives());
  passes.addPass(createBuildProcedures());
  passes.addPass(createBucketReductions(buckets));
  OverlapShardsOptions overlap;
  overlap.ahead = plan.gatherAhead;
  passes.addPass(createOverlapShards(overlap));
  passes.addPass(createBuildTable(table));
  passes.addPass(createAssignArena());
  passes.addPass(createVerifySchedule());
  bool ok = succeeded(passes.run(*module));
  EXPECT_TRUE(ok) << plan.describe() + " fails" + messages;
  return ok ? std::move(module) : OwningOpRef<ModuleOp>();
}

// Names that stand for kernels: what they compute plays no role in a check.
static void nameKernels(ModuleOp module) {
  OpBuilder b(module.getContext());
  module.walk([&](plan::LaunchOp op) {
    op.setKernel("k");
    op.setRows(1);
  });
  module.walk([&](plan::MatmulOp op) {
    op.setFallback("k");
    op.setFallbackAccumulate("k");
  });
  b.setInsertionPointToEnd(module.getBody());
  auto kernels = ModuleOp::create(b, module.getLoc(), emit::kKernelsModule);
  b.setInsertionPointToStart(kernels.getBody());
  func::FuncOp::create(b, module.getLoc(), "k", b.getFunctionType({}, {})).setPrivate();
}

static void setOptions(ModuleOp module, const Plan &plan) {
  Builder b(module.getContext());
  int64_t rows = plan.model.batch / plan.mesh.dp;
  auto entry = [&](StringRef name, Attribute value) { return b.getNamedAttr(name, value); };
  auto number = [&](StringRef name, int64_t n) { return entry(name, b.getI64IntegerAttr(n)); };
  module->setAttr("plan.options",
                  b.getDictionaryAttr({number("micro_batch", rows),
                                       number("micro_batches", plan.microBatches),
                                       number("global_batch", plan.model.batch * plan.microBatches),
                                       entry("schedule", b.getStringAttr(plan.schedule)),
                                       entry("optimizer", b.getStringAttr(plan.adamw ? "adamw" : "sgd"))}));
}

std::optional<planfile::ProgramT> write(ModuleOp module, const Plan &plan) {
  nameKernels(module);
  setOptions(module, plan);
  std::optional<planfile::ProgramT> program(std::in_place);
  bool ok = succeeded(emit::writePlan(module, *program));
  EXPECT_TRUE(ok) << plan.describe() + ": the plan cannot be written";
  if (!ok)
    return std::nullopt;
  return program;
}

} // namespace llmc::test
