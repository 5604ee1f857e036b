// Tests that kernels that are symmetric in two operands are told from those that are not, and
// that one that reads integers is never run on drawn floats.
#include "lib/verify/mutation/KernelSymmetry.h"

#include <gtest/gtest.h>

using namespace llmc;
using namespace llmc::planfile;

namespace {

unsigned runs = 0;

template <int64_t kFactor>
void combine(void *const *b, const int64_t *, int64_t first, int64_t last) {
  ++runs;
  auto *x = static_cast<const float *>(b[0]), *y = static_cast<const float *>(b[1]);
  for (int64_t i = first; i < last; ++i)
    static_cast<float *>(b[2])[i] = x[i] + kFactor * y[i];
}

LaunchT launchOf(uint64_t elements) {
  LaunchT launch;
  launch.rows = elements;
  for (int i = 0; i < 3; ++i) {
    auto operand = std::make_unique<OperandT>();
    operand->buffer = std::make_unique<BufferRefT>();
    operand->buffer->offset = i * 64;
    operand->buffer->size = elements * sizeof(float);
    operand->access = i == 2 ? Access::Write : Access::Read;
    launch.operands.push_back(std::move(operand));
  }
  return launch;
}

const char *const kFloats = "graph.add tensor<8xf32>, tensor<8xbf16>";

TEST(KernelSymmetry, TellsSumsFromOthers) {
  LaunchT launch = launchOf(8);
  EXPECT_TRUE(verify::isSymmetric(launch, kFloats, combine<1>, 0, 1));
  EXPECT_FALSE(verify::isSymmetric(launch, kFloats, combine<-1>, 0, 1));
  EXPECT_FALSE(verify::isSymmetric(launch, kFloats, combine<2>, 0, 1));
}

TEST(KernelSymmetry, RunsNoKernelThatReadsIntegers) {
  LaunchT launch = launchOf(8);
  runs = 0;
  for (const char *source : {"graph.gather tensor<32x32xf32>, tensor<1x8xi64>, tensor<i64>",
                             "graph.add tensor<8xf32>, tensor<8xf32>; graph.cast tensor<8xi32>"})
    EXPECT_FALSE(verify::isSymmetric(launch, source, combine<1>, 0, 1)) << source;
  EXPECT_EQ(runs, 0u);
  EXPECT_TRUE(verify::isSymmetric(launch, "graph.select tensor<i1>, tensor<f32>, tensor<f32>",
                                  combine<1>, 0, 1));
}

} // namespace
