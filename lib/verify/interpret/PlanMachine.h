// The meaning of the `plan` dialect, in double: every rank's arena, every
// instruction in issue order. It shares no code with the runtime and no kernel
// with the emitted program, so that a fault is either here (schedule, arena) or
// there (kernels, executor).
#ifndef LLMC_LIB_VERIFY_INTERPRET_PLANMACHINE_H
#define LLMC_LIB_VERIFY_INTERPRET_PLANMACHINE_H

#include "dialects/parallel/Evaluate.h"
#include "dialects/plan/Plan.h"
#include "lib/verify/steps/Training.h"
#include "mlir/IR/BuiltinOps.h"

#include <random>

namespace llmc::verify {

// Runs the steps of `trial` on the plan.stage ops of `module`. A byte that was never written
// reads as NaN. Streams are not modelled: instructions run in the order in which
// they are issued (that all legal orders agree is what static checks and
// interleavings show). Fails with a diagnostic where ranks wait for each other
// or an instruction cannot run.
mlir::FailureOr<Outcome> interpretPlan(mlir::ModuleOp module, const Trial &trial);

// Runs one step from states that are given by symbol, in an order drawn from `random`: streams of
// all ranks advance as events, messages and collectives allow, nothing else. What is sent is
// read from the sender's arena when it is received, what a collective combines when its last
// member is there. Padding and accumulators hold numbers that must not matter. Fails with a
// diagnostic as interpretPlan does.
mlir::FailureOr<parallel::StepOutput> interpretStep(mlir::ModuleOp module,
                                                    const parallel::StepInput &input,
                                                    std::mt19937 &random);

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_INTERPRET_PLANMACHINE_H
