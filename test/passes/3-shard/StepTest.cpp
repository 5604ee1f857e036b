// Phases 2 to 4: a step on all ranks of a mesh is the step of the model.
#include "mlir/Pass/PassManager.h"
#include "passes/2-train/Pipeline.h"
#include "passes/3-shard/Pipeline.h"
#include "passes/4-partition/Pipeline.h"
#include "test/passes/3-shard/Steps.h"
#include "test/support/CommandLine.h"
#include <gtest/gtest.h>

using namespace mlir;

namespace llmc::test {
namespace {

void checkStep(unsigned seed, bool adamw) {
  std::mt19937 random(seed);
  Mesh mesh = drawMesh(random, 16);
  Model model = drawModel(random, mesh);
  std::string what = "seed " + std::to_string(seed) + ", mesh " + mesh.text() + ", " + model.describe();
  MLIRContext context;
  loadDialects(context);
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() == DiagnosticSeverity::Error)
      std::cerr << what << ": " << diagnostic.str() << "\n";
    return success();
  });
  OwningOpRef<ModuleOp> module = parse(context, model.text());
  TrainOptions options;
  options.adamw = adamw;
  PassManager train(&context), rest(&context);
  buildTrainPipeline(train, options);
  EXPECT_TRUE(succeeded(train.run(*module))) << what + ": phase 2 fails";
  OwningOpRef<ModuleOp> whole = cast<ModuleOp>((*module)->clone());
  setMesh(*module, mesh);
  buildShardPipeline(rest);
  buildPartitionPipeline(rest);
  bool partitioned = succeeded(rest.run(*module));
  EXPECT_TRUE(partitioned) << what + ": phase 3 or 4 fails";
  if (!partitioned)
    return;
  parallel::StepInput input = drawInput(*whole, model, 1 + random() % 2, random);
  auto expected = parallel::evaluateStep(*whole, input), got = parallel::evaluateStep(*module, input);
  EXPECT_TRUE(succeeded(expected) && succeeded(got)) << what + ": the step does not run";
  if (succeeded(expected) && succeeded(got))
    expectSame(*whole, *got, *expected, what);
}

TEST(Step, AdamwOnAMeshIsAdamw) {
  for (int i = 0; i < draws().count; ++i)
    checkStep(draws().seed + i, true);
}

TEST(Step, SgdOnAMeshIsSgd) {
  for (int i = 0; i < draws().count; ++i)
    checkStep(draws().seed + 1000 + i, false);
}

} // namespace
} // namespace llmc::test
