// Tests that the sentence on a wrong step names what is wrong: the loss, a gradient, or both.
#include "lib/verify/FaultLocation.h"

#include "test/support/Context.h"

#include <gtest/gtest.h>

using namespace llmc;
using namespace llmc::verify;

namespace {

TEST(FaultLocation, NamesWhatIsWrong) {
  test::LoadedContext context;
  CompileOptions options;
  options.model = LLMC_TEST_DATA "/gpt2/config.json";
  options.sequence = 8;
  options.globalBatch = 2;
  auto reference = makeReference(context, options, /*seed=*/1, /*withPlan=*/false);
  ASSERT_TRUE(mlir::succeeded(reference));
  mlir::ModuleOp trained = reference->one.at(Phase::Train);
  Outcome got = reference->exact;
  got.losses[0] *= 2;
  EXPECT_EQ(describeFaultLocation(trained, got, *reference), "the loss is wrong");
  got.gradients.at("transformer.wpe.weight").data[0] += 1;
  std::string both = describeFaultLocation(trained, got, *reference);
  EXPECT_TRUE(both.starts_with("the loss is wrong, and the gradient of transformer.wpe.weight"))
      << both;
  EXPECT_EQ(both.find(" not"), std::string::npos) << both;
  got.losses = reference->exact.losses;
  std::string gradient = describeFaultLocation(trained, got, *reference);
  EXPECT_TRUE(gradient.starts_with("the loss is right, the gradient of transformer.wpe.weight not"))
      << gradient;
}

} // namespace
