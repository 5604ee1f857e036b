// Interprets training steps and inferences in double by the reference meaning of the IR. Tested
// by test/verify/steps/RepeatedStepsTest.cpp.
#ifndef LLMC_LIB_VERIFY_INTERPRET_INTERPRET_H
#define LLMC_LIB_VERIFY_INTERPRET_INTERPRET_H

#include "dialects/parallel/Evaluate.h"
#include "lib/verify/steps/Training.h"
#include "mlir/IR/BuiltinOps.h"

#include <functional>

namespace llmc::verify {

// Receives, after each step of training, its inputs, the states before it and its output.
using AfterStep = std::function<void(const StepData &, const NamedTensors &before,
                                     const parallel::StepOutput &)>;

// Interprets the steps of `trial`: @micro and @update on one rank, or the functions of the stages
// on every rank of the module's mesh. Of an inference it runs the first step only: @forward, or
// forward_K of the stages. Calls `ended` after each micro-batch and `afterStep` after each step,
// unless empty; an inference calls neither. Numbers are doubles, or with Rounding::ToTypes those of
// the values' element types. `observe` sees what the ranks of a mesh execute. Fails with a diagnostic.
mlir::FailureOr<Outcome> interpret(mlir::ModuleOp module, const Trial &trial,
                                   const std::function<void()> &ended = {},
                                   const AfterStep &afterStep = {},
                                   graph::Rounding rounding = graph::Rounding::None,
                                   const parallel::Observer &observe = {});

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_INTERPRET_INTERPRET_H
