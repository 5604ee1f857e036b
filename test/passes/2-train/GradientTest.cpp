// @micro against central differences of its own loss, and against itself: other
// labels, other foldings, other micro-batches.
#include "mlir/IR/Diagnostics.h"
#include "test/passes/2-train/Step.h"
#include <gtest/gtest.h>

using namespace llmc::graph;

namespace llmc::test {
namespace {

// Accumulators of @micro run once on `inputs`.
Named gradients(Step &step, const Named &inputs) {
  Named named = inputs;
  step.run("micro", named);
  return named;
}

double lossAt(Step &step, const Named &inputs) {
  return gradients(step, inputs).at("loss.sum").data[0];
}

double largest(const Named &named, const std::vector<std::string> &names) {
  double scale = 0;
  for (const std::string &name : names)
    for (double x : named.at(name).data)
      scale = std::max(scale, std::abs(x));
  return scale;
}

// Random entries of every parameter: (f(x + h) - f(x - h)) / 2h, relative to the
// entry or, where that is small, to a hundredth of the largest one.
void checkAgainstDifferences(Step &step, int entries) {
  Named inputs = step.draw(7);
  inputs["labels"].data[1] = -100;
  Named got = gradients(step, inputs);
  double floor = 1e-2 * largest(got, step.states(Role::accumulator));
  EXPECT_TRUE(floor > 0);
  std::mt19937 engine(3);
  constexpr double h = 3e-5;
  for (const std::string &name : step.states(Role::parameter)) {
    for (int k = 0; k < entries; ++k) {
      size_t i = engine() % inputs[name].data.size();
      double at = inputs[name].data[i];
      inputs[name].data[i] = at + h;
      double up = lossAt(step, inputs);
      inputs[name].data[i] = at - h;
      double down = lossAt(step, inputs);
      inputs[name].data[i] = at;
      double expected = (up - down) / (2 * h), gradient = got.at(name + ".grad").data[i];
      double error = std::abs(gradient - expected) / std::max(std::abs(expected), floor);
      EXPECT_TRUE(error < 1e-6) << name + "[" + std::to_string(i) + "]: got " +
                                       std::to_string(gradient) + ", expected " +
                                       std::to_string(expected);
    }
  }
}

void expectSame(const Named &a, const Named &b, const std::vector<std::string> &names,
                double limit) {
  double scale = 1e-3 * largest(a, names);
  for (const std::string &name : names) {
    double error = distance(a.at(name), b.at(name)) / std::max(norm(a.at(name)), scale);
    EXPECT_TRUE(error < limit) << name + " differs by " + std::to_string(error);
  }
}

// Gradients, loss and count.
std::vector<std::string> sums(Step &step) {
  std::vector<std::string> names = step.states(Role::accumulator);
  names.insert(names.end(), {"loss.sum", "tokens.sum"});
  return names;
}

TEST(Gradient, FoldedLayersAgreeWithDifferences) {
  Step step(decoder(2, 3));
  EXPECT_TRUE(step.train());
  checkAgainstDifferences(step, 3);
}

TEST(Gradient, UnfoldedLayersAgreeWithDifferences) {
  Step step(decoder(2, 3), /*unroll=*/true);
  EXPECT_TRUE(step.train());
  checkAgainstDifferences(step, 1);
}

TEST(Gradient, FoldedAndUnfoldedLayersAgree) {
  Step folded(decoder(2, 3)), unfolded(decoder(2, 3), /*unroll=*/true);
  EXPECT_TRUE(folded.train() && unfolded.train());
  Named inputs = folded.draw(11);
  expectSame(gradients(folded, inputs), gradients(unfolded, inputs), sums(folded), 1e-12);
}

TEST(Gradient, EveryUseOfRepeatsAgreesWithDifferences) {
  Step step(oddRepeats());
  EXPECT_TRUE(step.train());
  checkAgainstDifferences(step, 6);
}

TEST(Gradient, EveryUseOfRepeatsUnfolds) {
  Step folded(oddRepeats()), unfolded(oddRepeats(), /*unroll=*/true);
  EXPECT_TRUE(folded.train() && unfolded.train());
  Named inputs = folded.draw(12);
  expectSame(gradients(folded, inputs), gradients(unfolded, inputs), sums(folded), 1e-12);
}

// A row counts for what it is, whatever the others do: the sum over single rows
// is the whole, and ignored rows add nothing.
TEST(Gradient, IgnoredLabelsDropOut) {
  Step step(decoder(1, 2));
  EXPECT_TRUE(step.train());
  Named inputs = step.draw(5);
  std::vector<bool> counts = {true, false, true, true, false};
  Named masked = inputs, single = inputs;
  for (size_t row = 0; row < counts.size(); ++row)
    if (!counts[row])
      masked["labels"].data[row] = -100;
  for (size_t row = 0; row < counts.size(); ++row) {
    if (!counts[row])
      continue;
    for (size_t other = 0; other < counts.size(); ++other)
      single["labels"].data[other] = other == row ? inputs["labels"].data[row] : -100;
    step.run("micro", single); // on top of the rows before
  }
  Named whole = gradients(step, masked);
  EXPECT_EQ(whole.at("tokens.sum").data[0], 3.0);
  expectSame(whole, single, sums(step), 1e-12);
}

TEST(Gradient, WithoutLabelsAllIsZero) {
  Step step(decoder(2, 1));
  EXPECT_TRUE(step.train());
  Named inputs = step.draw(6);
  for (double &label : inputs["labels"].data)
    label = -100;
  Named got = gradients(step, inputs);
  EXPECT_EQ(largest(got, sums(step)), 0.0);
  // And the step that follows moves nothing: no decay is asked for.
  for (const char *name : {"beta1", "beta2", "clip", "weight_decay"})
    got[name] = scalar(0);
  for (const char *name : {"lr", "eps", "bias_correction1", "bias_correction2"})
    got[name] = scalar(0.1);
  step.run("update", got);
  for (const std::string &name : step.states(Role::parameter))
    EXPECT_EQ(distance(got.at(name), inputs.at(name)), 0.0);
  EXPECT_EQ(got.at("loss").data[0], 0.0);
  EXPECT_EQ(got.at("tokens").data[0], 0.0);
}

// The loss of one row is what it says: log-sum-exp minus the label's logit.
TEST(Gradient, LossIsCrossEntropy) {
  Step step(R"(
    graph.source @t : tensor<2x3xf32> {init = #graph.init_kind<zeros>}
    graph.state @p : tensor<2x3xf32> parameter views [#graph.view<@t, 0, [3, 1]>]
    func.func @forward(%ids: tensor<2xi64> {graph.input = "ids"}, %p: tensor<2x3xf32> {graph.state = @p}) -> tensor<2x3xf32> {
      %0 = graph.gather %p, %ids : (tensor<2x3xf32>, tensor<2xi64>) -> tensor<2x3xf32>
      return %0 : tensor<2x3xf32>
    })");
  EXPECT_TRUE(step.train());
  Named named;
  named["p"] = Tensor({2, 3});
  named["p"].data = {1000, 1001, 999, 0.25, -1, 2};
  named["ids"] = Tensor({2});
  named["ids"].data = {0, 1};
  named["labels"] = Tensor({2});
  named["labels"].data = {1, 0};
  step.run("micro", named);
  double first = std::log(std::exp(-1.0) + 1 + std::exp(-2.0));
  double second = std::log(std::exp(0.25) + std::exp(-1.0) + std::exp(2.0)) - 0.25;
  EXPECT_TRUE(std::abs(named.at("loss.sum").data[0] - (first + second)) < 1e-12);
  EXPECT_EQ(named.at("tokens.sum").data[0], 2.0);
}

TEST(Gradient, TwoMicroBatchesAreOne) {
  Step whole(decoder(2, 2)), half(decoder(1, 2));
  EXPECT_TRUE(whole.train() && half.train());
  Named inputs = whole.draw(8), parts = inputs;
  inputs["labels"].data[3] = -100;
  for (int part = 0; part < 2; ++part) {
    for (const char *name : {"input_ids", "labels"}) {
      auto begin = inputs[name].data.begin() + part * kSequence;
      parts[name] = Tensor({1, kSequence});
      parts[name].data.assign(begin, begin + kSequence);
    }
    half.run("micro", parts);
  }
  expectSame(gradients(whole, inputs), parts, sums(whole), 1e-12);
}

} // namespace
} // namespace llmc::test
