// The log-sum-exp that a kernel alone is given is that of its attention, under every kind of mask.
#include "lib/verify/kernels/LogSum.h"

#include "dialects/graph/Evaluate.h"
#include "lib/pipeline/Pipeline.h"
#include "mlir/Parser/Parser.h"
#include "runtime/states/Random.h"
#include "test/support/Context.h"

#include <gtest/gtest.h>

using namespace llmc;
using namespace mlir;
using graph::Tensor;

namespace {

// One func with an attention (results o, lse) and its gradient on the same q, k and mask.
std::string moduleWith(const std::string &mask) {
  std::string q = "tensor<2x5x4x3xf32>", k = "tensor<2x6x2x3xf32>", l = "tensor<2x5x4xf32>";
  std::string argument = mask.empty() ? "" : ", %m: " + mask;
  std::string use = mask.empty() ? "" : ", %m", type = mask.empty() ? "" : ", " + mask;
  std::string attributes = " {scale = 0.7, causal = false} : (";
  return "func.func @f(%q: " + q + ", %k: " + k + ", %v: " + k + ", %g: " + q + argument +
         ") -> (" + q + ", " + l + ") {\n  %o, %l = graph.attention %q, %k, %v" + use + attributes +
         q + ", " + k + ", " + k + type + ") -> (" + q + ", " + l +
         ")\n  %0, %1, %2 = graph.attention_grad %g, %q, %k, %v, %o, %l" + use + attributes + q +
         ", " + q + ", " + k + ", " + k + ", " + q + ", " + l + type + ") -> (" + q + ", " + k +
         ", " + k + ")\n  return %o, %l : " + q + ", " + l + "\n}\n";
}

void checkMask(const std::string &mask) {
  test::LoadedContext context;
  auto module = parseSourceString<ModuleOp>(moduleWith(mask), ParserConfig(&context));
  ASSERT_TRUE(module);
  auto func = *module->getOps<func::FuncOp>().begin();
  graph::AttentionGradOp gradient = *func.getOps<graph::AttentionGradOp>().begin();
  std::vector<Tensor> inputs;
  std::vector<std::vector<float>> floats;
  std::vector<uint8_t> truths;
  for (auto [n, type] : llvm::enumerate(func.getArgumentTypes())) {
    auto tensor = cast<RankedTensorType>(type);
    Tensor &input = inputs.emplace_back(tensor.getShape().vec());
    bool isTruth = tensor.getElementType().isInteger(1);
    for (int64_t i = 0; i < input.size(); ++i)
      input.data[i] = isTruth ? double(i % 3 != 1) : double(float(runtime::normal(5, n, i)));
    floats.emplace_back(input.data.begin(), input.data.end());
    if (isTruth)
      truths.assign(input.data.begin(), input.data.end());
  }
  auto results = graph::evaluate(func, inputs);
  ASSERT_TRUE(succeeded(results));
  const Tensor &expected = (*results)[1];
  verify::AttentionOperands operands{floats[0].data(), floats[1].data()};
  if (!truths.empty())
    operands.mask = truths.data();
  else if (!mask.empty())
    operands.addedMask = floats[4].data();
  std::vector<float> got(expected.size());
  verify::writeLogSum(gradient, operands, verify::wholeOf(expected.shape), got.data());
  for (int64_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(got[i], expected.data[i], 1e-5) << mask << " at " << i;
}

TEST(LogSum, IsThatOfTheAttentionUnderEveryMask) {
  for (const char *mask : {"", "tensor<2x4x5x6xf32>", "tensor<1x4x5x6xf32>", "tensor<1x1x5x6xf32>",
                           "tensor<2x1x1x6xf32>", "tensor<1x4x1x6xf32>", "tensor<2x1x5x6xi1>",
                           "tensor<1x1x5x6xi1>"})
    checkMask(mask);
}

} // namespace
