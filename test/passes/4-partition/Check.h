// Draws inputs of a step, and compares two runs of it.
#ifndef LLMC_TEST_PASSES_PARTITION_CHECK_H
#define LLMC_TEST_PASSES_PARTITION_CHECK_H

#include "dialects/parallel/Evaluate.h"

namespace llmc::test {

// Draws weights, moments, token ids and labels (some ignored) of a step of @micro and @update.
parallel::StepInput drawInput(mlir::ModuleOp module, int64_t microBatches, int64_t vocabulary);

// Returns the norm of a tensor, or of a difference.
double l2(const graph::Tensor &a, const graph::Tensor *b = nullptr);

// Checks that every gradient, parameter, moment and output of `got` is that of `expected` to
// 1e-10, and that ranks agree. Errors are relative, but no gradient counts as smaller than a
// thousandth of all together. `module` names the states, global and without padding.
void expectClose(const parallel::StepOutput &got, const parallel::StepOutput &expected,
                 mlir::ModuleOp module, const std::string &what);

} // namespace llmc::test

#endif // LLMC_TEST_PASSES_PARTITION_CHECK_H
