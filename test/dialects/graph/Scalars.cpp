// The meaning of ops on the scalars of Scalars.h: derivatives and bounds on roundings.
#include "Cases.h"

#include "dialects/graph/Scalars.h"

#include <cmath>

using namespace mlir;

namespace llmc::graph::test {

static bool isReal(const Argument &argument) {
  return argument.kind != Argument::Ids && argument.kind != Argument::Logical;
}

// Inputs with a slope each, and those moved by `step` along it.
static std::vector<DualTensor> withSlopes(Random &random, const Case &test,
                                          const std::vector<Tensor> &inputs) {
  std::vector<DualTensor> duals;
  for (auto [argument, input] : llvm::zip(test.arguments, inputs)) {
    DualTensor &dual = duals.emplace_back(input.shape);
    for (int64_t i = 0; i < input.size(); ++i)
      dual.data[i] = {input.data[i], isReal(argument) ? double(random.between(-8, 8)) / 8 : 0.0};
  }
  return duals;
}
static std::vector<Tensor> moved(const std::vector<DualTensor> &duals, double step) {
  std::vector<Tensor> inputs;
  for (const DualTensor &dual : duals) {
    Tensor &input = inputs.emplace_back(dual.shape);
    for (int64_t i = 0; i < dual.size(); ++i)
      input.data[i] = dual.data[i].value + step * dual.data[i].slope;
  }
  return inputs;
}

static bool isFloatResult(func::FuncOp func, size_t k) {
  return isFloat(func.front().getTerminator()->getOperand(k));
}

// Slopes equal central differences but at kinks, values are those of double.
static void testSlopes(Random &random, func::FuncOp func, const Case &test,
                       const std::vector<Tensor> &inputs) {
  std::vector<DualTensor> duals = withSlopes(random, test, inputs);
  FailureOr<std::vector<DualTensor>> got = evaluateDual(func, duals);
  std::vector<Tensor> at = run(test.name, func, inputs);
  constexpr double kStep = 1e-5;
  std::vector<Tensor> above = run(test.name, func, moved(duals, kStep)),
                      below = run(test.name, func, moved(duals, -kStep));
  EXPECT_TRUE(succeeded(got) && got->size() == at.size()) << test.name + " runs on duals";
  if (failed(got))
    return;
  for (size_t k = 0; k < got->size(); ++k) {
    Tensor values(at[k].shape), slopes(at[k].shape), quotients(at[k].shape);
    for (int64_t i = 0; i < values.size(); ++i) {
      values.data[i] = (*got)[k].data[i].value;
      slopes.data[i] = (*got)[k].data[i].slope;
      double up = above[k].data[i] - at[k].data[i], down = at[k].data[i] - below[k].data[i];
      bool smooth = std::abs(up - down) < 1e-2 * kStep; // neither at a kink nor infinite
      quotients.data[i] = smooth ? (up + down) / (2 * kStep) : slopes.data[i];
    }
    std::string what = test.name + " result " + std::to_string(k);
    expectClose(what + ", values of duals", values, at[k], 0);
    if (isFloatResult(func, k))
      expectClose(what + ", slopes", slopes, quotients, 1e-6);
  }
}

// Checks that operands that change by no more than their errors change results by no more than
// the bounds, but for terms of second order, and that no bound is more than a thousand times the
// change that was seen.
static void testBounds(Random &random, func::FuncOp func, const Case &test,
                       const std::vector<Tensor> &inputs) {
  constexpr double kUnits = 64;
  std::vector<BoundedTensor> bounded;
  std::vector<Tensor> others;
  for (auto [argument, input] : llvm::zip(test.arguments, inputs)) {
    BoundedTensor &bound = bounded.emplace_back(input.shape);
    Tensor &other = others.emplace_back(input);
    for (int64_t i = 0; i < input.size(); ++i) {
      bound.data[i] = {input.data[i], isReal(argument) ? kUnits : 0.0};
      other.data[i] += bound.data[i].radius() * double(random.between(-8, 8)) / 8;
    }
  }
  FailureOr<std::vector<BoundedTensor>> got = evaluateBounded(func.front(), bounded);
  EXPECT_TRUE(succeeded(got)) << test.name + " runs on bounded numbers";
  if (failed(got))
    return;
  std::vector<Tensor> at = run(test.name, func, inputs), want = run(test.name, func, others);
  for (size_t k = 0; k < got->size(); ++k) {
    double outside = 0, difference = 0;
    for (int64_t i = 0; i < want[k].size(); ++i) {
      Bounded bound = (*got)[k].data[i];
      difference = std::max(difference, std::abs(bound.value - at[k].data[i]));
      outside = std::max(outside, std::abs(want[k].data[i] - bound.value) - 1.01 * bound.radius());
    }
    std::string what = test.name + " result " + std::to_string(k);
    EXPECT_TRUE(difference == 0) << what + ", values of bounded numbers";
    EXPECT_TRUE(outside <= 0) << what + " stays within its bound";
  }
}

static void testScalars(Random &random, MLIRContext *context, const Case &test) {
  OwningOpRef<ModuleOp> module = ModuleOp::create(UnknownLoc::get(context));
  func::FuncOp func = makeFunction(*module, test);
  std::vector<Tensor> inputs = drawInputs(random, test);
  if (run(test.name, func, inputs).empty())
    return;
  testSlopes(random, func, test, inputs);
  testBounds(random, func, test, inputs);
}

TEST_P(OpTest, Scalars) { testScalars(random, context(), GetParam().test); }

// Checks roundings that a formula has, and none where nothing is rounded.
TEST(Bounds, ByHand) {
  Bounded third = Bounded(1) / Bounded(3);
  EXPECT_TRUE(third.error == 1.0 / 3) << "a quotient is rounded once";
  EXPECT_TRUE((Bounded(1.5) * Bounded(2)).error == 0) << "an exact product is not rounded";
  Bounded small = third - Bounded(float(1.0 / 3));
  EXPECT_TRUE(small.radius() > std::abs(small.value))
      << "a difference keeps what its operands lost";
  Bounded lost = third - third;
  EXPECT_TRUE((lost * lost).radius() >= std::pow(0x1p-25 / 3, 2))
      << "the square of what is lost is not exact";
  EXPECT_TRUE(std::isinf(exp(Bounded(100)).error)) << "what no float32 holds has no bound";
  EXPECT_TRUE(exp(Bounded(-INFINITY)).error == 0) << "what is masked out is exact";
  EXPECT_TRUE(
      std::isinf(compared([](double a, double b) { return a < b; }, third, Bounded(1.0 / 3)).error))
      << "a comparison within the roundings is undecided";
  Bounded sum = 0;
  for (int i = 0; i < 4096; ++i)
    accumulate(sum, i % 2 ? 0.1 : -0.1, 4096);
  EXPECT_TRUE(std::abs(sum.error - 64 * 409.6) < 1e-6) << "a sum grows with the root of its length";
}

} // namespace llmc::graph::test
