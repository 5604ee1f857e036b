// Launches whose results go past the cache: too large to be drawn often.
#include "KernelTest.h"

#include "Runner.h"
#include <cstdio>

namespace llmc::test {

namespace {

// Each writes 32 MiB and more, whole rows of vectors.
Case flat() {
  FunctionText f;
  std::string type = tensorType({8400001}), x = f.argument(type), y = f.argument(type);
  return f.finish("large flat", {f.op("graph.add", {x, y}, {type})});
}

Case withBias() {
  FunctionText f;
  std::string type = tensorType({4200, 2048}), x = f.argument(type);
  std::string sum = f.op("graph.add", {x, f.argument(tensorType({2048}))}, {type});
  return f.finish("large bias", {sum, f.op("graph.relu", {sum}, {type})});
}

Case norm() {
  FunctionText f;
  std::string type = tensorType({8300, 1024}), vector = tensorType({1024});
  std::string y = f.op("graph.rms_norm", {f.argument(type), f.argument(vector)},
                       {type, tensorType({8300})}, "eps = 1.0e-5 : f64");
  return f.finish("large norm", {y + "#0", y + "#1"});
}

Case transposed() {
  FunctionText f;
  std::string x = f.argument(tensorType({3, 1056, 2703}));
  return f.finish("large transpose", {f.op("graph.transpose", {x}, {tensorType({3, 2703, 1056})},
                                           "permutation = array<i64: 0, 2, 1>")});
}

TEST_P(CpuKernelTest, ResultsTooLargeForACache) {
  Random random(5);
  std::vector<Case> cases{flat(), withBias(), norm(), transposed()};
  auto outcomes = runCases(context(), *GetParam(), cases, random);
  for (size_t i = 0; i < cases.size(); ++i) {
    EXPECT_TRUE(outcomes[i].problem.empty()) << cases[i].name << ": " << outcomes[i].problem;
    std::printf("%-7s %-24s worst error %.2e\n", GetParam()->name.data(), cases[i].name.c_str(),
                outcomes[i].error);
  }
}

} // namespace
} // namespace llmc::test
