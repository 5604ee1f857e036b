// Compiles cases, loads them and compares their results with the reference evaluator.
#ifndef LLMC_TEST_PASSES_EMIT_RUNNER_H
#define LLMC_TEST_PASSES_EMIT_RUNNER_H

#include "Cases.h"
#include "mlir/IR/MLIRContext.h"
#include "passes/6-emit/kernel/KernelTarget.h"

namespace llmc::test {

struct Outcome {
  std::string problem; // empty: all is well
  double error = 0;    // largest, relative to the largest magnitude of its result
};

// Returns one outcome per case; all kernels are linked into one shared object.
std::vector<Outcome> runCases(mlir::MLIRContext &context, const emit::KernelTarget &target,
                              const std::vector<Case> &cases, Random &random);

} // namespace llmc::test

#endif // LLMC_TEST_PASSES_EMIT_RUNNER_H
