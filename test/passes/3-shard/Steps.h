// Draws inputs of a training step, and compares two steps.
#ifndef LLMC_TEST_PASSES_SHARD_STEPS_H
#define LLMC_TEST_PASSES_SHARD_STEPS_H

#include "dialects/parallel/Evaluate.h"
#include "dialects/parallel/Parallel.h"
#include "test/passes/3-shard/Models.h"

namespace llmc::test {

// Draws normal parameters and first moments, positive second ones, and words and labels of
// `count` micro-batches, of which about a third is ignored.
parallel::StepInput drawInput(mlir::ModuleOp module, const Model &model, int count,
                              std::mt19937 &random);

// Lists where two steps differ. These must be equal: every state within 1e-10 of its own norm, or
// of a thousandth of the norm of all of its role; every output within 1e-10; copies of one
// element. `module` names the states.
std::vector<std::string> differences(mlir::ModuleOp module, const parallel::StepOutput &got,
                                     const parallel::StepOutput &expected);
// Fails one check for each difference.
void expectSame(mlir::ModuleOp module, const parallel::StepOutput &got,
                const parallel::StepOutput &expected, const std::string &what);

} // namespace llmc::test

#endif // LLMC_TEST_PASSES_SHARD_STEPS_H
