// Inputs of a step, and the comparison of two runs of it.
#ifndef LLMC_TEST_PASSES_PARTITION_CHECK_H
#define LLMC_TEST_PASSES_PARTITION_CHECK_H

#include "dialects/parallel/Evaluate.h"

namespace llmc::test {

// Weights, moments, token ids and labels (some ignored) of a step of @micro and @update.
parallel::StepInput drawInput(mlir::ModuleOp module, int64_t microBatches, int64_t vocabulary);

// The norm of a tensor, or of a difference.
double l2(const graph::Tensor &a, const graph::Tensor *b = nullptr);

// Every gradient, parameter, moment and output of `got` is that of `expected`
// to 1e-10, and ranks agree. Errors are relative, but no tensor counts as
// smaller than a thousandth of all together. `module` names the states, global
// and without padding.
void expectClose(const parallel::StepOutput &got, const parallel::StepOutput &expected,
                 mlir::ModuleOp module, const std::string &what);

} // namespace llmc::test

#endif // LLMC_TEST_PASSES_PARTITION_CHECK_H
