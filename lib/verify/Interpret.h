// Training steps in double, by the meaning of the IR.
#ifndef LLMC_LIB_VERIFY_INTERPRET_H
#define LLMC_LIB_VERIFY_INTERPRET_H

#include "lib/verify/Training.h"
#include "mlir/IR/BuiltinOps.h"

#include <functional>

namespace llmc::verify {

// Runs the steps of `trial`: @micro and @update on one rank, or the functions
// of stages on every rank of the module's mesh; of an inference the first step:
// @forward, or forward_K of the stages. Calls `ended`, if it is there, after each
// micro-batch. Fails with a diagnostic.
mlir::FailureOr<Outcome> interpret(mlir::ModuleOp module, const Trial &trial,
                                   const std::function<void()> &ended = {});

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_INTERPRET_H
