// Runs a mutant and tells how far it comes from the plan that it was made of.
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

// What the host and the next step see after a step: on each rank loss and other
// outputs, gradients, parameters, moments; the results of an inference.
struct Seen {
  std::vector<double> outputs;
  std::vector<std::vector<std::byte>> states, results;
};

struct RunResult {
  std::string how;   // "": equal; "numbers"; "deadlock"; "refused": by the executor
  double error = 0;  // of the first that differs, relative
  std::string where; // its name, or the executor's words
};

class MutantRunner {
public:
  // Runs the steps of `trial` once on `program`; mutants are compared with that.
  // Both live longer than this. All on the calling thread. With `noise`, sums over
  // micro-batches begin from that much noise in place of zero: then also what a
  // model leaves at zero (the gradient of a key's bias) has a weight.
  static support::Result<std::unique_ptr<MutantRunner>>
  create(const planfile::ProgramT &program, const runtime::Kernels &kernels, const Trial &trial,
         double noise = 0);

  // `mutant` must pass checkBounds(), and have the states of the plan. Differences up
  // to `limit` count as none: relative ones in L2 norms, a tensor at least against
  // 1e-3 of all of its role on the rank.
  RunResult run(planfile::ProgramT mutant, double limit) const;

  // Whether runs of `mutant` in drawn orders (runtime/cpu/Adversary.h) see what a run in order
  // sees, and no poison.
  bool holdsInEveryOrder(const planfile::ProgramT &mutant, double limit) const;

  // Largest loss, norm, count or element of a result of all steps; infinite if one of
  // them is no number.
  double largestOutput() const;
  const runtime::Kernels &kernelsOfPlan() const { return kernels; }
  double loss() const; // of the first step; of an inference the largest element of a result

private:
  MutantRunner(const planfile::ProgramT &program, const runtime::Kernels &kernels)
      : program(program), kernels(kernels) {}
  support::Result<std::unique_ptr<runtime::Executor>>
  start(const planfile::ProgramT &plan, std::optional<uint64_t> order = std::nullopt) const;
  void addNoise(const runtime::Executor &executor) const;
  support::Status step(runtime::Executor &executor, size_t step) const;
  Seen see(const runtime::Executor &executor) const;
  bool compare(const Seen &expected, const runtime::Executor &executor, double limit,
               RunResult &result) const;
  double largestResult(const Seen &seen) const;
  bool compareResults(const Seen &expected, const runtime::Executor &executor, double limit,
                      RunResult &result) const;
  bool compareRank(const Seen &expected, size_t &at, const runtime::Executor &executor,
                   uint32_t rank, double limit, RunResult &result) const;

  const planfile::ProgramT &program;
  const runtime::Kernels &kernels;
  const Trial *trial = nullptr;
  double noise = 0;
  std::vector<std::vector<std::byte>> arenas; // before the first step, by rank
  std::vector<std::vector<std::vector<std::byte>>> inputs; // by step and input
  std::vector<Seen> expected;                 // by step
};

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_MUTATION_MUTANTRUN_H
