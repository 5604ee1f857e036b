// A tactic that is added to phase 3, on axes that it shares with others: N ranks still
// compute what one rank computes.
#include "dialects/parallel/Annotations.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "passes/2-train/Pipeline.h"
#include "passes/3-shard/Passes.h"
#include "passes/3-shard/Pipeline.h"
#include "passes/4-partition/Pipeline.h"
#include "test/passes/3-shard/Steps.h"
#include "test/passes/3-shard/mock/ShardMock.h"
#include "test/support/CommandLine.h"
#include <gtest/gtest.h>

using namespace mlir;

namespace llmc::test {
namespace {

// Phase 3, with a tactic right before another one, and without that of the axis cp, which it takes.
LogicalResult buildShardWith(StringRef tactic, StringRef before, PassManager &pm) {
  PassManager plain(pm.getContext());
  buildShardPipeline(plain);
  std::string passes;
  llvm::raw_string_ostream stream(passes);
  auto others = llvm::make_filter_range(plain.getPasses(),
                                        [](Pass &pass) { return pass.getArgument() != "llmc-shard-context"; });
  llvm::interleaveComma(others, stream, [&](Pass &pass) {
    if (pass.getArgument() == before)
      stream << tactic << ",";
    pass.printAsTextualPipeline(stream);
  });
  return parsePassPipeline(passes, pm, llvm::errs());
}

Model decoder() {
  Model model;
  model.batch = 8, model.width = 16, model.heads = 4, model.hidden = 48;
  model.rms = model.rotary = model.gated = true;
  model.bias = model.positions = false;
  return model;
}

std::string shardingOf(ModuleOp module, StringRef name) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  if (auto state = module.lookupSymbol<graph::StateOp>(name))
    stream << state->getAttr(parallel::kSharding);
  return text;
}

int count(ModuleOp module, StringRef kind, StringRef axes) {
  int found = 0;
  module.walk([&](Operation *op) {
    if (op->getName().getStringRef() != kind)
      return;
    std::string text;
    llvm::raw_string_ostream stream(text);
    stream << op->getAttr("axes");
    found += text == axes;
  });
  return found;
}

// Checks the shardings of the states, and the step on all ranks against the step of one.
void checkMock(const Mesh &mesh, const Model &model, StringRef columns, const std::string &what) {
  std::mt19937 random(5);
  MLIRContext context;
  loadDialects(context);
  OwningOpRef<ModuleOp> module = parse(context, model.text());
  PassManager train(&context), shard(&context), partition(&context);
  buildTrainPipeline(train, {});
  EXPECT_TRUE(succeeded(train.run(*module))) << what + ": phase 2 fails";
  OwningOpRef<ModuleOp> whole = cast<ModuleOp>((*module)->clone());
  setMesh(*module, mesh);
  // The one line: where the tactic stands.
  EXPECT_TRUE(succeeded(buildShardWith("test-shard-mock", "llmc-shard-data", shard)));
  bool sharded = succeeded(shard.run(*module));
  EXPECT_TRUE(sharded) << what + ": phase 3 fails";
  std::string found = sharded ? shardingOf(*module, "w_up") : "";
  EXPECT_TRUE(found.find(columns.str()) != std::string::npos) << what + ": w_up is " + found;
  buildPartitionPipeline(partition);
  if (!sharded || failed(partition.run(*module))) {
    ADD_FAILURE() << what + ": phase 4 fails";
    return;
  }
  // Rows that other ranks hold come to the columns, and sums go back to their rows.
  EXPECT_TRUE(count(*module, "parallel.all_gather", "[\"dp1\"]") > 0)
      << what + ": no rows are gathered";
  EXPECT_TRUE(count(*module, "parallel.reduce_scatter", "[\"dp1\"]") > 0)
      << what + ": no sums are scattered";
  parallel::StepInput input = drawInput(*whole, model, 2, random);
  auto expected = parallel::evaluateStep(*whole, input), got = parallel::evaluateStep(*module, input);
  EXPECT_TRUE(succeeded(expected) && succeeded(got)) << what + ": the step does not run";
  if (succeeded(expected) && succeeded(got))
    expectSame(*whole, *got, *expected, what);
}

TEST(MockTactic, ATacticOnHalfOfDpAndAllOfCp) {
  registerShardPasses();
  registerShardMock();
  checkMock({.dp = 4, .cp = 2, .ep = 4}, decoder(), "{\"dp1\", \"cp\"}", "dp 4, cp 2");
  checkMock({.dp = 4, .pp = 2, .tp = 2, .cp = 2, .ep = 4, .etp = 2}, decoder(),
            "{\"dp1\", \"cp\", \"tp\"}", "dp 4, pp 2, tp 2, cp 2");
}

} // namespace
} // namespace llmc::test
