// Interprets the `plan` dialect in double: every rank's arena, every instruction. It shares no
// code with the runtime and no kernel with the emitted program, so that a difference locates a
// fault either here (schedule, arena) or there (kernels, executor). Tested by
// test/passes/5-schedule and test/verify/steps/RepeatedStepsTest.cpp.
#ifndef LLMC_LIB_VERIFY_INTERPRET_PLANINTERPRETER_H
#define LLMC_LIB_VERIFY_INTERPRET_PLANINTERPRETER_H

#include "dialects/parallel/Evaluate.h"
#include "dialects/plan/Plan.h"
#include "lib/verify/steps/Training.h"
#include "mlir/IR/BuiltinOps.h"

#include <random>

namespace llmc::verify {

// Interprets the steps of `trial` on the plan.stage ops of `module`; of an inference the first. A
// byte that was never written reads as NaN. Streams are not modelled: instructions run in issue
// order (static checks and interleavings show that all legal orders agree). Fails with a
// diagnostic if ranks wait for each other or an instruction cannot run.
mlir::FailureOr<Outcome> interpretPlan(mlir::ModuleOp module, const Trial &trial);

// Interprets one step from the given states (by symbol) in an order drawn from `random`: the
// streams of all ranks advance as events, messages and collectives allow, with no other
// constraint. A message is read from the sender's arena when it is received, the operands of a
// collective when its last member arrives. Padding and accumulators start with a number that must
// not affect the result. Fails with a diagnostic as interpretPlan() does.
mlir::FailureOr<parallel::StepOutput> interpretStep(mlir::ModuleOp module,
                                                    const parallel::StepInput &input,
                                                    std::mt19937 &random);

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_INTERPRET_PLANINTERPRETER_H
