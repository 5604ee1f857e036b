// Runs a mutant and compares it with the plan that it was made from. Tested by
// test/numerics/mutation.py.
#ifndef LLMC_LIB_VERIFY_MUTATION_MUTANTRUN_H
#define LLMC_LIB_VERIFY_MUTATION_MUTANTRUN_H

#include "lib/support/Error.h"
#include "lib/verify/steps/Training.h"
#include "runtime/cpu/Executor.h"
#include "runtime/compute/Kernels.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace llmc::verify {

// Holds what the host and the next step see after a step: on each rank loss and other outputs,
// gradients, parameters, moments; the results of an inference.
struct StepSnapshot {
  std::vector<double> outputs;
  std::vector<std::vector<std::byte>> states, results;
};

// Describes how a run differs from the plan's.
struct RunResult {
  std::string how;   // "": equal; "numbers"; "deadlock"; "refused": by the executor
  double error = 0;  // relative error of the first value that differs
  std::string where; // its name, or the executor's message
};

// Holds the expected results of one trial and runs mutants against them.
class MutantRunner {
public:
  // Runs the steps of `trial` once on `program`, for mutants to be compared with, on the calling
  // thread. `program` and `trial` must outlive the runner. With `noise`, gradient accumulators
  // start from that much noise in place of zero, so that what a model leaves at zero (the
  // gradient of a key's bias) has a weight, too. Fails if the plan cannot be run.
  static support::Result<std::unique_ptr<MutantRunner>>
  create(const planfile::ProgramT &program, const runtime::Kernels &kernels, const Trial &trial,
         double noise = 0);

  // Runs a mutant, which must pass checkBounds() and have the plan's states. Ignores relative
  // differences up to `limit` in L2 norms; a tensor is measured at least against 1e-3 of all of
  // its role on the rank.
  RunResult run(planfile::ProgramT mutant, double limit) const;

  // Returns whether runs of `mutant` in drawn orders (runtime/cpu/Adversary.h) give what a run in
  // order gives, and read no poison.
  bool passesInDrawnOrders(const planfile::ProgramT &mutant, double limit) const;

  // Returns the largest loss, norm, count or element of a result of all steps; infinity if one of
  // them is NaN.
  double largestOutput() const;
  const runtime::Kernels &kernelsOfPlan() const { return kernels; }
  double loss() const; // of the first step; inference: largest element of a result

private:
  MutantRunner(const planfile::ProgramT &program, const runtime::Kernels &kernels)
      : program(program), kernels(kernels) {}
  support::Result<std::unique_ptr<runtime::Executor>>
  start(const planfile::ProgramT &plan, std::optional<uint64_t> order = std::nullopt) const;
  void addNoise(const runtime::Executor &executor) const;
  support::Status step(runtime::Executor &executor, size_t step) const;
  StepSnapshot see(const runtime::Executor &executor) const;
  bool compare(const StepSnapshot &expected, const runtime::Executor &executor, double limit,
               RunResult &result) const;
  double largestResult(const StepSnapshot &seen) const;
  bool compareResults(const StepSnapshot &expected, const runtime::Executor &executor, double limit,
                      RunResult &result) const;
  bool compareRank(const StepSnapshot &expected, size_t &at, const runtime::Executor &executor,
                   uint32_t rank, double limit, RunResult &result) const;

  const planfile::ProgramT &program;
  const runtime::Kernels &kernels;
  const Trial *trial = nullptr;
  double noise = 0;
  std::vector<std::vector<std::byte>> arenas; // contents before the first step, by rank
  std::vector<std::vector<std::vector<std::byte>>> inputs; // by step and input
  std::vector<StepSnapshot> expected;                 // by step
};

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_MUTATION_MUTANTRUN_H
