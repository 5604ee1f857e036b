// Tests random launches of each kind, compiled, run in parts and compared with the ops' own meaning
// in float64, for each processor that this one can stand in for, a GPU's threads among them.
#include "KernelTest.h"

#include "Runner.h"
#include "dialects/plan/Plan.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Parser/Parser.h"
#include "runtime/compute/Cpu.h"
#include "test/support/CommandLine.h"
#include "test/support/Names.h"

#include <cstdio>
#include <functional>
#include <set>

using namespace mlir;

namespace llmc::test {

MLIRContext &context() {
  static MLIRContext context;
  context.loadDialect<func::FuncDialect, plan::PlanDialect, arith::ArithDialect, math::MathDialect,
                      scf::SCFDialect, vector::VectorDialect, LLVM::LLVMDialect, gpu::GPUDialect>();
  return context;
}

std::vector<const emit::KernelTarget *> cpuTargets() {
  return {std::begin(emit::kCpuTargets), std::end(emit::kCpuTargets)};
}

std::vector<const emit::KernelTarget *> allTargets() {
  std::vector<const emit::KernelTarget *> targets = cpuTargets();
  targets.push_back(&emit::kCudaTarget);
  return targets;
}

std::string whyNotRun(const emit::KernelTarget &target) {
  if (target.threads)
    return "";
  auto can = runtime::chooseCpu(runtime::readCpuFeatures(), target.name);
  return can ? "" : can.message();
}

void KernelTest::SetUp() {
  if (std::string why = whyNotRun(*GetParam()); !why.empty())
    GTEST_SKIP() << why;
}

namespace {

class RandomLaunch
    : public testing::TestWithParam<std::tuple<const emit::KernelTarget *, Generator>> {
protected:
  // Runs cases that `make` draws, as many as are asked for.
  void run(const std::string &seed, const std::function<Case(Random &, int)> &make);
};

void RandomLaunch::run(const std::string &seed, const std::function<Case(Random &, int)> &make) {
  const emit::KernelTarget *target = std::get<0>(GetParam());
  if (std::string why = whyNotRun(*target); !why.empty())
    GTEST_SKIP() << why;
  Random random(int64_t(draws().seed) * 1000003 + std::hash<std::string>()(seed));
  double worst = 0;
  for (int first = 0; first < draws().count; first += 32) {
    std::vector<Case> cases;
    for (int i = first; i < std::min(first + 32, draws().count); ++i)
      cases.push_back(make(random, i));
    auto outcomes = runCases(context(), *target, cases, random);
    for (size_t i = 0; i < cases.size(); ++i) {
      worst = std::max(worst, outcomes[i].error);
      EXPECT_TRUE(outcomes[i].problem.empty())
          << cases[i].name << ", draw " << first + i << ": " << outcomes[i].problem << "\n"
          << cases[i].text;
    }
  }
  std::printf("%-7s %-24s worst error %.2e\n", target->name.data(), seed.c_str(), worst);
}

TEST_P(RandomLaunch, ComputesItsOps) {
  const Generator &generator = std::get<1>(GetParam());
  run(generator.name, [&](Random &random, int) { return generator.make(random); });
}

// Runs the same launches on tensors of bf16 and f16, which may be off by their one rounding more.
TEST_P(RandomLaunch, ComputesItsOpsInLowTypes) {
  const Generator &generator = std::get<1>(GetParam());
  if (std::string_view(generator.name) == "adamw")
    GTEST_SKIP() << "the optimizer works on f32";
  run(std::string(generator.name) + " low", [&](Random &random, int i) {
    return inLowType(generator.make(random), i % 2 ? "f16" : "bf16");
  });
}

// Returns whether an op is in no launch: a product that has instructions of its own, or an exchange that
// ranks do by other ops.
bool isNoLaunch(StringRef op) {
  return llvm::is_contained({"graph.grouped_matmul", "graph.grouped_outer", "graph.exchange_routes",
                             "graph.dispatch", "graph.collect"},
                            op);
}

// Draws every op of the graph dialect in some launch, so that an op without a kernel is noticed
// where it is added. Reads and stores of the step are no launches.
TEST(Launches, EveryOpIsDrawn) {
  std::set<std::string> drawn;
  Random random(1);
  for (const Generator &generator : generators())
    for (int i = 0; i < 400; ++i)
      parseSourceString<ModuleOp>(generator.make(random).text, &context())->walk([&](Operation *op) {
        drawn.insert(op->getName().getStringRef().str());
      });
  for (RegisteredOperationName name : context().getRegisteredOperations())
    if (name.hasInterface<graph::GraphOpInterface>() && !isNoLaunch(name.getStringRef()))
      EXPECT_TRUE(drawn.count(name.getStringRef().str()))
          << "no generator draws " << name.getStringRef().str() << " (Generators.cpp)";
}

constexpr auto nameOfTarget = [](const auto &info) { return testName(info.param->name.str()); };

constexpr auto nameOfLaunch = [](const auto &info) {
  const auto &[target, generator] = info.param;
  return testName(target->name.str() + " " + generator.name);
};

INSTANTIATE_TEST_SUITE_P(Processors, RandomLaunch,
                         testing::Combine(testing::ValuesIn(allTargets()),
                                          testing::ValuesIn(generators())),
                         nameOfLaunch);
INSTANTIATE_TEST_SUITE_P(Processors, KernelTest, testing::ValuesIn(allTargets()), nameOfTarget);
INSTANTIATE_TEST_SUITE_P(Processors, CpuKernelTest, testing::ValuesIn(cpuTargets()), nameOfTarget);

} // namespace
} // namespace llmc::test
