// The meaning of the `plan` dialect, in double: every rank's arena, every
// instruction in issue order. It shares no code with the runtime and no kernel
// with the emitted program, so that a fault is either here (schedule, arena) or
// there (kernels, executor).
#ifndef LLMC_LIB_VERIFY_PLANMACHINE_H
#define LLMC_LIB_VERIFY_PLANMACHINE_H

#include "dialects/plan/Plan.h"
#include "lib/verify/Training.h"
#include "mlir/IR/BuiltinOps.h"

namespace llmc::verify {

// Runs the steps of `trial` on the plan.stage ops of `module`. A byte that was never written
// reads as NaN. Streams are not modelled: instructions run in the order in which
// they are issued (that all legal orders agree is what static checks and
// interleavings show). Fails with a diagnostic where ranks wait for each other
// or an instruction cannot run.
mlir::FailureOr<Outcome> interpretPlan(mlir::ModuleOp module, const Trial &trial);

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_PLANMACHINE_H
