// Training steps in double, by the meaning of the IR.
#ifndef LLMC_LIB_VERIFY_INTERPRET_INTERPRET_H
#define LLMC_LIB_VERIFY_INTERPRET_INTERPRET_H

#include "dialects/parallel/Evaluate.h"
#include "lib/verify/steps/Training.h"
#include "mlir/IR/BuiltinOps.h"

#include <functional>

namespace llmc::verify {

// Is told after each step of training: what went in, the states before it and what came out.
using AfterStep = std::function<void(const StepData &, const NamedTensors &before,
                                     const parallel::StepOutput &)>;

// Runs the steps of `trial`: @micro and @update on one rank, or the functions
// of stages on every rank of the module's mesh; of an inference the first step:
// @forward, or forward_K of the stages. Calls `ended`, if it is there, after each
// micro-batch, and `afterStep`. Fails with a diagnostic.
mlir::FailureOr<Outcome> interpret(mlir::ModuleOp module, const Trial &trial,
                                   const std::function<void()> &ended = {},
                                   const AfterStep &afterStep = {});

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_INTERPRET_INTERPRET_H
