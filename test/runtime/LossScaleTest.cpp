// Tests the scale of the loss in fp16.
#include "runtime/train/LossScale.h"

#include <gtest/gtest.h>

using llmc::runtime::LossScale;

TEST(LossScale, DoublesAfterCleanSteps) {
  LossScale scale(0);
  for (uint64_t i = 1; i < LossScale::kCleanSteps; ++i)
    ASSERT_TRUE(scale.record(i, false, 1));
  EXPECT_EQ(scale.value(), 65536);
  ASSERT_TRUE(scale.record(LossScale::kCleanSteps, false, 1));
  EXPECT_EQ(scale.value(), 131072);
  EXPECT_EQ(scale.taken(), LossScale::kCleanSteps);
}

TEST(LossScale, HalvesAtOverflowAndCountsAnew) {
  LossScale scale(0);
  for (uint64_t i = 1; i < LossScale::kCleanSteps; ++i)
    ASSERT_TRUE(scale.record(i, false, 1));
  ASSERT_TRUE(scale.record(LossScale::kCleanSteps, true, NAN));
  EXPECT_EQ(scale.value(), 32768);
  EXPECT_EQ(scale.skipped(), 1u);
  ASSERT_TRUE(scale.record(LossScale::kCleanSteps + 1, false, 1));
  EXPECT_EQ(scale.value(), 32768) << "a skipped step ends the row of clean ones";
}

TEST(LossScale, StaysAtOneOrAbove) {
  LossScale scale(0);
  for (uint64_t i = 1; i <= 60; ++i)
    ASSERT_TRUE(scale.record(i, i % 3 != 0, 1));
  EXPECT_EQ(scale.value(), 1);
}

TEST(LossScale, KeepsAFixedScale) {
  LossScale scale(128);
  ASSERT_TRUE(scale.record(1, true, NAN));
  for (uint64_t i = 2; i < 2 * LossScale::kCleanSteps + 2; ++i)
    ASSERT_TRUE(scale.record(i, false, 1));
  EXPECT_EQ(scale.value(), 128);
}

TEST(LossScale, EndsAfterTenSkipsInARow) {
  LossScale scale(0);
  ASSERT_TRUE(scale.record(1, false, 2.5));
  for (uint64_t i = 2; i < 11; ++i)
    ASSERT_TRUE(scale.record(i, true, NAN));
  auto status = scale.record(11, true, NAN);
  ASSERT_FALSE(status);
  EXPECT_NE(status.message().find("last finite norm was 2.5 at step 1"), std::string::npos)
      << status.message();
}

TEST(LossScale, SaysThatNoStepWasTaken) {
  LossScale scale(0);
  for (uint64_t i = 1; i < 10; ++i)
    ASSERT_TRUE(scale.record(i, true, NAN));
  auto status = scale.record(10, true, NAN);
  ASSERT_FALSE(status);
  EXPECT_NE(status.message().find("no step has changed the weights"), std::string::npos);
}
