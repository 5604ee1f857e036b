// The optimizers' equations, held against what they are by hand.
#include <gtest/gtest.h>

#include "lib/verify/interpret/UpdateEquations.h"

#include <cmath>

namespace llmc::verify {
namespace {

Tensor tensor(std::vector<int64_t> shape, std::vector<double> data) {
  Tensor made(std::move(shape));
  made.data = std::move(data);
  return made;
}

UpdateInput input(bool adamw) {
  UpdateInput made;
  made.adamw = adamw;
  made.before.weights = {{"bias", tensor({2}, {1, -2})}, {"matrix", tensor({2, 2}, {1, 2, 3, 4})}};
  made.gradients = {{"bias", tensor({2}, {0.3, 0})}, {"matrix", tensor({2, 2}, {0.4, 0, 0, -1.2})}};
  made.scalars = {{"lr", 0.1}, {"weight_decay", 0.5}, {"clip", 0}};
  if (adamw)
    made.scalars.insert({{"beta1", 0.9}, {"beta2", 0.75}, {"eps", 0.5}});
  return made;
}

// w - lr (g + decay w), decay of the matrix alone.
TEST(UpdateEquations, DescendsAndDecaysMatrices) {
  OptimizerState after = updatedState(input(false));
  EXPECT_DOUBLE_EQ(after.weights["bias"].data[0], 1 - 0.03);
  EXPECT_DOUBLE_EQ(after.weights["bias"].data[1], -2);
  EXPECT_DOUBLE_EQ(after.weights["matrix"].data[0], 1 - 0.1 * (0.4 + 0.5));
  EXPECT_DOUBLE_EQ(after.weights["matrix"].data[3], 4 - 0.1 * (-1.2 + 2));
}

TEST(UpdateEquations, ClipsByTheNormOfAllTensors) {
  UpdateInput clipped = input(false);
  EXPECT_DOUBLE_EQ(globalNorm(clipped.gradients), 1.3);
  clipped.scalars["clip"] = 0.65;
  OptimizerState after = updatedState(clipped);
  EXPECT_DOUBLE_EQ(after.weights["bias"].data[0], 1 - 0.03 * 0.65 / (1.3 + 1e-6));
  clipped.scalars["clip"] = 2;
  EXPECT_DOUBLE_EQ(updatedState(clipped).weights["bias"].data[0], 1 - 0.03);
}

// In the first step the corrected moments are g and g^2; in the second they are means of two
// gradients, here equal ones, whose weights sum to one.
TEST(UpdateEquations, CorrectsMomentsThatBeganAtZero) {
  UpdateInput step = input(true);
  double change = 0.1 * 0.3 / (0.3 + 0.5), decayed = 1 - 0.1 * 0.5;
  OptimizerState first = updatedState(step);
  EXPECT_NEAR(first.weights["bias"].data[0], 1 - change, 1e-15);
  EXPECT_NEAR(first.weights["matrix"].data[0], decayed - 0.1 * 0.4 / (0.4 + 0.5), 1e-15);
  EXPECT_NEAR(first.moments1["bias"].data[0], 0.1 * 0.3, 1e-16);
  EXPECT_NEAR(first.moments2["bias"].data[0], 0.25 * 0.09, 1e-16);
  step.before = first;
  step.step = 2;
  OptimizerState second = updatedState(step);
  EXPECT_NEAR(second.weights["bias"].data[0], 1 - 2 * change, 1e-15);
  EXPECT_NEAR(second.moments1["bias"].data[0], 0.19 * 0.3, 1e-16);
}

TEST(UpdateEquations, TakesTheRoundedCorrectionButNoWrongOne) {
  UpdateInput step = input(true);
  step.scalars["bias_correction1"] = 0.1 * (1 + 1e-7);
  EXPECT_NEAR(updatedState(step).weights["bias"].data[0],
              1 - 0.1 * 0.3 / (1 + 1e-7) / (0.3 + 0.5), 1e-15);
  step.scalars["bias_correction1"] = 0.19;
  EXPECT_NEAR(updatedState(step).weights["bias"].data[0], 1 - 0.1 * 0.3 / (0.3 + 0.5), 1e-15);
}

// A slope that an exporter stretched to [2, 1] is a vector; an embedding of one row decays.
TEST(UpdateEquations, DecaysByDimensionsThatSaySomething) {
  UpdateInput step = input(false);
  step.before.weights = {{"slope", tensor({2, 1}, {1, 1})}, {"row", tensor({1, 2}, {1, 1})}};
  step.gradients.clear();
  step.stretched = {"slope"};
  OptimizerState after = updatedState(step);
  EXPECT_DOUBLE_EQ(after.weights["slope"].data[0], 1);
  EXPECT_DOUBLE_EQ(after.weights["row"].data[0], 1 - 0.1 * 0.5);
}

TEST(UpdateEquations, TellsWhatDiffers) {
  UpdateInput step = input(true);
  OptimizerState after = updatedState(step);
  UpdateErrors errors;
  errors.compare(step, after, 1.3);
  EXPECT_EQ(errors.steps, 1u);
  EXPECT_EQ(errors.weights.value, 0);
  EXPECT_EQ(errors.moments.value, 0);
  EXPECT_LT(errors.norm, 1e-15);
  after.weights["bias"].data[0] += 1e-6;
  after.moments2["matrix"].data[3] *= 1 + 1e-6;
  errors.compare(step, after, 1.3001);
  EXPECT_EQ(errors.weights.name, "bias, step 2");
  EXPECT_GT(errors.weights.value, 1e-6);
  EXPECT_EQ(errors.moments.name, "matrix, step 2");
  EXPECT_GT(errors.norm, 1e-5);
  after.weights.erase("bias");
  errors.compare(step, after, 1.3);
  EXPECT_TRUE(std::isinf(errors.weights.value));
}

} // namespace
} // namespace llmc::verify
