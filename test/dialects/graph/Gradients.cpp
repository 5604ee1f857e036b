// The gradient graph against central differences.
#include "Cases.h"

#include <cmath>
#include <limits>

using namespace mlir;

namespace llmc::graph::test {

static double weighted(const Tensor &value, const Tensor &weights) {
  double sum = 0;
  for (int64_t i = 0; i < value.size(); ++i)
    sum += value.data[i] * weights.data[i];
  return sum;
}

// d(sum(weights * result 0)) / d(inputs[k]), one element at a time.
static Tensor differences(func::FuncOp func, std::vector<Tensor> inputs, size_t k,
                          const Tensor &weights) {
  constexpr double step = 1e-5;
  Tensor result(inputs[k].shape);
  for (int64_t i = 0; i < result.size(); ++i) {
    double x = inputs[k].data[i];
    inputs[k].data[i] = x + step;
    double above = weighted(evaluate(func, inputs)->front(), weights);
    inputs[k].data[i] = x - step;
    double below = weighted(evaluate(func, inputs)->front(), weights);
    inputs[k].data[i] = x;
    result.data[i] = (above - below) / (2 * step);
  }
  return result;
}

// func @g(arguments, cotangent) -> one cotangent per operand that has one;
// `flows` says which. Null if the op has no gradient.
static func::FuncOp gradientOf(ModuleOp module, func::FuncOp func, const Case &test,
                               std::vector<bool> &flows, bool &builtNothing) {
  SmallVector<Type> types(func.getArgumentTypes());
  types.push_back(func.getResultTypes()[0]);
  bool has = true;
  func::FuncOp gradient =
      makeFunction(module, "g", types, [&](OpBuilder &builder, ValueRange arguments) {
        Operation *op = test.build(builder, module.getLoc(), arguments.drop_back());
        SmallVector<Value> cotangents(op->getNumResults()), operands, results;
        cotangents[0] = arguments.back();
        has = succeeded(
            cast<GraphOpInterface>(op).differentiate(builder, cotangents, operands));
        builtNothing = op == &op->getBlock()->back();
        for (Value value : operands) {
          flows.push_back(value != nullptr);
          if (value)
            results.push_back(value);
        }
        return results;
      });
  return has ? gradient : nullptr;
}

static void testGradients(Random &random, MLIRContext *context, const Case &test) {
  OwningOpRef<ModuleOp> module = ModuleOp::create(UnknownLoc::get(context));
  func::FuncOp func = makeFunction(*module, test);
  std::vector<Tensor> inputs = drawInputs(random, test);
  std::vector<Tensor> outputs = run(test.name, func, inputs);
  if (outputs.empty())
    return;
  std::vector<bool> flows;
  bool builtNothing = false;
  func::FuncOp gradient = gradientOf(*module, func, test, flows, builtNothing);
  if (test.gradient == Case::None) {
    EXPECT_TRUE(!gradient && builtNothing) << test.name + " refuses to differentiate cleanly";
    return;
  }
  EXPECT_TRUE(gradient && flows.size() == inputs.size()) << test.name + " differentiates";
  if (!gradient || flows.size() != inputs.size())
    return;
  Tensor weights = drawTensor(random, {Argument::Any, outputs[0].shape}, 0);
  inputs.push_back(weights);
  std::vector<Tensor> cotangents = run(test.name + " gradient", gradient, inputs);
  inputs.pop_back();
  for (size_t k = 0, next = 0; k < inputs.size(); ++k) {
    std::string what = test.name + " gradient of operand " + std::to_string(k);
    bool isReal = test.arguments[k].kind == Argument::Any ||
                  test.arguments[k].kind == Argument::Distinct ||
                  test.arguments[k].kind == Argument::Positive;
    if (!isReal || test.arguments[k].fixed || test.gradient == Case::Zero) {
      EXPECT_TRUE(!flows[k]) << what + " is null";
      continue;
    }
    // Null means zero.
    Tensor got = flows[k] ? cotangents[next++] : Tensor(inputs[k].shape);
    expectClose(what, got, differences(func, inputs, k, weights), 1e-7);
  }
}

TEST_P(OpTest, Gradients) { testGradients(random, context(), GetParam().test); }

// Checks that equal maxima share a gradient evenly, as they do in PyTorch's amax.
TEST(Gradients, TiedMaxima) {
  Case test{"reduce max of ties", {{Argument::Any, {2, 4}}},
            [](OpBuilder &b, Location l, ValueRange v) {
              return ReduceOp::create(b, l, RankedTensorType::get({2}, b.getF64Type()), v[0],
                                      ReduceKind::max, ArrayRef<int64_t>{1});
            }};
  OwningOpRef<ModuleOp> module = ModuleOp::create(UnknownLoc::get(context()));
  func::FuncOp func = makeFunction(*module, test);
  std::vector<bool> flows;
  bool builtNothing = false;
  func::FuncOp gradient = gradientOf(*module, func, test, flows, builtNothing);
  ASSERT_TRUE(gradient && flows == std::vector<bool>{true}) << test.name + " differentiates";
  constexpr double infinity = std::numeric_limits<double>::infinity();
  Tensor x({2, 4}), cotangent({2}), expected({2, 4});
  x.data = {1, 3, 3, 3, -infinity, -infinity, -infinity, -infinity};
  cotangent.data = {6, 8};
  expected.data = {0, 2, 2, 2, 2, 2, 2, 2};
  std::vector<Tensor> got = run(test.name, gradient, {x, cotangent});
  ASSERT_EQ(got.size(), 1u);
  expectClose(test.name, got[0], expected, 0);
}

// Sums weighted elements of all results of `func`.
static double weightedResults(func::FuncOp func, const std::vector<Tensor> &inputs, ArrayRef<Tensor> weights) {
  double sum = 0;
  for (auto [value, weight] : llvm::zip(*evaluate(func, inputs), weights))
    sum += weighted(value, weight);
  return sum;
}

// Returns func @both(arguments, cotangents of all results) -> cotangents of q, k and v.
static func::FuncOp gradientOfBoth(ModuleOp module, func::FuncOp func, const Case &test) {
  SmallVector<Type> types(func.getArgumentTypes());
  llvm::append_range(types, func.getResultTypes());
  return makeFunction(module, "both", types, [&](OpBuilder &builder, ValueRange arguments) {
    Operation *op = test.build(builder, module.getLoc(), arguments.drop_back(2));
    SmallVector<Value> cotangents(arguments.take_back(2)), operands;
    EXPECT_TRUE(succeeded(cast<GraphOpInterface>(op).differentiate(builder, cotangents, operands)));
    operands.truncate(3);
    return operands;
  });
}

// Checks that the log-sum-exp of an attention may have a cotangent too.
static void testStatistic(Random &random, const Case &test) {
  OwningOpRef<ModuleOp> module = ModuleOp::create(UnknownLoc::get(context()));
  func::FuncOp func = makeFunction(*module, test);
  std::vector<Tensor> inputs = drawInputs(random, test), outputs = run(test.name, func, inputs), weights;
  if (outputs.empty() || !llvm::all_of(outputs[1].data, [](double x) { return std::isfinite(x); }))
    return; // a row that sees nothing
  for (const Tensor &output : outputs)
    weights.push_back(drawTensor(random, {Argument::Any, output.shape}, 0));
  std::vector<Tensor> all = inputs;
  llvm::append_range(all, weights);
  std::vector<Tensor> got = run(test.name + " gradient", gradientOfBoth(*module, func, test), all);
  ASSERT_EQ(got.size(), 3u);
  constexpr double step = 1e-5;
  for (size_t k = 0; k < got.size(); ++k) {
    Tensor expected(inputs[k].shape);
    for (int64_t i = 0; i < expected.size(); ++i) {
      std::vector<Tensor> above = inputs, below = inputs;
      above[k].data[i] += step;
      below[k].data[i] -= step;
      expected.data[i] =
          (weightedResults(func, above, weights) - weightedResults(func, below, weights)) / (2 * step);
    }
    expectClose(test.name + " with lse, gradient of operand " + std::to_string(k), got[k], expected, 1e-7);
  }
}

TEST(Gradients, StatisticOfAttention) {
  for (uint64_t seed : seeds()) {
    Random random(seed);
    for (const Case &test : drawCases(random))
      if (test.name == "attention")
        testStatistic(random, test);
  }
}

} // namespace llmc::graph::test
