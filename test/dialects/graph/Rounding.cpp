// Numbers of the formats that a value may have, and an evaluation that rounds to them.
#include "Cases.h"

#include "dialects/graph/Rounding.h"
#include "lib/support/ElementType.h"
#include "mlir/Parser/Parser.h"

#include <cmath>

using namespace mlir;

namespace llmc::graph::test {

// Compares with the conversions of the runtime, which work on bits, also halfway between numbers.
TEST(Rounding, EqualsTheConversionsOfTheRuntime) {
  Builder builder(context());
  Random random(7);
  for (int i = 0; i < 20000; ++i) {
    float x = std::ldexp(float(random.between(-(1 << 17), 1 << 17)), int(random.between(-160, 120)));
    double bf16 = roundedTo(builder.getBF16Type(), x), f16 = roundedTo(builder.getF16Type(), x);
    ASSERT_TRUE(bf16 == support::bfloatToFloat(support::floatToBfloat(x))) << x;
    ASSERT_TRUE(f16 == support::halfToFloat(support::floatToHalf(x))) << x;
    ASSERT_TRUE(roundedTo(builder.getF32Type(), x) == x) << x;
  }
}

TEST(Rounding, ByHand) {
  Builder builder(context());
  Type bf16 = builder.getBF16Type(), f16 = builder.getF16Type(), f32 = builder.getF32Type();
  EXPECT_EQ(roundedTo(bf16, 1 + 0x1p-8), 1) << "of two that are as near the even one";
  EXPECT_EQ(roundedTo(bf16, 1 + 3 * 0x1p-8), 1 + 0x1p-6);
  EXPECT_EQ(roundedTo(f16, 0x1p-25), 0);
  EXPECT_EQ(roundedTo(f16, 3 * 0x1p-25), 0x1p-23) << "denormals are kept";
  EXPECT_EQ(roundedTo(f16, 65519), 65504);
  EXPECT_EQ(roundedTo(f16, 65520), INFINITY);
  EXPECT_EQ(roundedTo(f32, -1e39), -INFINITY);
  EXPECT_TRUE(std::isnan(roundedTo(bf16, NAN)));
  EXPECT_EQ(roundedTo(builder.getF64Type(), 0.1), 0.1);
  EXPECT_EQ(roundedTo(builder.getI64Type(), 1e15 + 1), 1e15 + 1);
}

// A cast to a low type and back changes numbers if types count, and only then.
TEST(Rounding, OfAnEvaluation) {
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(R"(
    func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> {
      %low = graph.cast %x : (tensor<2xf32>) -> tensor<2xbf16>
      %sum = graph.add %low, %low : (tensor<2xbf16>, tensor<2xbf16>) -> tensor<2xbf16>
      %back = graph.cast %sum : (tensor<2xbf16>) -> tensor<2xf32>
      return %back : tensor<2xf32>
    })",
                                                             ParserConfig(context()));
  auto func = module->lookupSymbol<func::FuncOp>("f");
  Tensor x({2});
  x.data = {1 + 0x1p-9, 0.1};
  auto exact = evaluate(func, x), rounded = evaluate(func, x, nullptr, Rounding::ToTypes);
  ASSERT_TRUE(succeeded(exact) && succeeded(rounded));
  EXPECT_EQ(exact->front().data, (std::vector<double>{2 + 0x1p-8, 0.2}));
  EXPECT_EQ(rounded->front().data, (std::vector<double>{2, 0.2001953125}));
}

} // namespace llmc::graph::test
