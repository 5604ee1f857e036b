// Tests that a sound model passes the quick checks with every optimizer: they must ask for the
// update of that optimizer.
#include "lib/verify/mutation/IrMutationRunner.h"

#include "test/support/Context.h"

#include <gtest/gtest.h>

using namespace llmc;

namespace {

class SoundUpdate : public testing::TestWithParam<Optimizer> {};

TEST_P(SoundUpdate, Passes) {
  test::LoadedContext context;
  verify::VerifyOptions options;
  options.compile.model = LLMC_TEST_DATA "/gpt2/config.json";
  options.compile.dp = 2;
  options.compile.sequence = 4;
  options.compile.globalBatch = 4;
  options.compile.optimizer = GetParam();
  options.twin = verify::ScaledDownMode::Off;
  auto runner = verify::IrMutationRunner::create(context, options);
  ASSERT_TRUE(mlir::succeeded(runner));
  (*runner)->quick = true;
  for (Phase phase : {Phase::Train, Phase::Partition}) {
    auto nothing = [](Phase, mlir::ModuleOp) { return true; };
    EXPECT_EQ((*runner)->decide(phase, nothing).overwriter, "") << toString(phase);
  }
}

INSTANTIATE_TEST_SUITE_P(Optimizers, SoundUpdate,
                         testing::Values(Optimizer::AdamW, Optimizer::Sgd));

} // namespace
