// llmc-kernel-tests [--draws N] [--seed S] [--only NAME] [--cpu NAME]: N random launches
// of each kind, compiled, run in parts and compared with the ops' own meaning in float64,
// for each processor that this one can stand in for, a GPU's threads among them; then
// UnitTests.h. NAME is a kind, or edges, large, far, ulp, equations or plan.
#include "Runner.h"
#include "UnitTests.h"

#include "dialects/plan/Plan.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "runtime/compute/Cpu.h"
#include <cstdio>
#include <cstring>

using namespace mlir;
using namespace llmc::test;

namespace {

struct Run {
  MLIRContext &context;
  int64_t draws, seed;
  std::string only;
  int passed = 0, failed = 0;

  void check(const llmc::emit::KernelTarget &target);
  void check(const llmc::emit::KernelTarget &target, const Generator &generator);
};

} // namespace

void Run::check(const llmc::emit::KernelTarget &target, const Generator &generator) {
  Random random(seed * 1000003 + std::hash<std::string>()(generator.name));
  double worst = 0;
  for (int64_t first = 0; first < draws; first += 32) {
    std::vector<Case> cases;
    for (int64_t i = first; i < std::min(first + 32, draws); ++i)
      cases.push_back(generator.make(random));
    auto outcomes = runCases(context, target, cases, random);
    for (size_t i = 0; i < cases.size(); ++i) {
      worst = std::max(worst, outcomes[i].error);
      (outcomes[i].problem.empty() ? passed : failed)++;
      if (!outcomes[i].problem.empty())
        std::printf("FAILED %s, %s, draw %zu, seed %lld: %s\n%s\n", target.name.data(),
                    cases[i].name.c_str(), first + i, static_cast<long long>(seed),
                    outcomes[i].problem.c_str(), cases[i].text.c_str());
    }
  }
  std::printf("%-7s %-24s worst error %.2e\n", target.name.data(), generator.name, worst);
  std::fflush(stdout);
}

void Run::check(const llmc::emit::KernelTarget &target) {
  for (const Generator &generator : generators())
    if (only.empty() || only == generator.name)
      check(target, generator);
  if (only.empty() || only == "edges")
    checkEdges(context, target, passed, failed);
  if (!target.threads && (only.empty() || only == "large"))
    checkLarge(context, target, passed, failed);
  if (!target.threads && (only.empty() || only == "ulp"))
    checkUnitsInLastPlace(context, target, passed, failed);
}

int main(int argc, char **argv) {
  int64_t draws = 12, seed = 1;
  std::string only, cpu;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (!std::strcmp(argv[i], "--draws"))
      draws = std::stoll(argv[i + 1]);
    else if (!std::strcmp(argv[i], "--seed"))
      seed = std::stoll(argv[i + 1]);
    else if (!std::strcmp(argv[i], "--only"))
      only = argv[i + 1];
    else if (!std::strcmp(argv[i], "--cpu"))
      cpu = argv[i + 1];
  }
  MLIRContext context;
  context
      .loadDialect<func::FuncDialect, llmc::plan::PlanDialect, arith::ArithDialect,
                   math::MathDialect, scf::SCFDialect, vector::VectorDialect, LLVM::LLVMDialect,
                   gpu::GPUDialect>();
  Run run{context, draws, seed, only};
  auto features = llmc::runtime::readCpuFeatures();
  for (const llmc::emit::KernelTarget *target : llmc::emit::kCpuTargets) {
    if (!cpu.empty() && cpu != target->name)
      continue;
    if (auto can = llmc::runtime::chooseCpu(features, target->name); can)
      run.check(*target);
    else
      std::printf("%s: not run, %s\n", target->name.data(), can.message().c_str());
  }
  // Threads, simulated.
  if (cpu.empty() || cpu == llmc::emit::kCudaTarget.name)
    run.check(llmc::emit::kCudaTarget);
  int passed = run.passed, failed = run.failed;
  if (only.empty() || only == "far")
    checkFar(context, passed, failed);
  if (only.empty() || only == "equations")
    checkEquations(context, draws * 10, seed, passed, failed);
  if (only.empty() || only == "plan") {
    checkWritePlan(context, passed, failed);
    checkWriteForms(context, passed, failed);
  }
  std::printf("%d passed, %d failed\n", passed, failed);
  return failed != 0;
}
