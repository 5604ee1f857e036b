// Declares the passes of phase 2: from a model's forward function to the two functions of a step.
// Tests: test/passes/2-train.
#ifndef LLMC_PASSES_TRAIN_PASSES_H
#define LLMC_PASSES_TRAIN_PASSES_H

#include "dialects/parallel/Parallel.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace llmc {
#define GEN_PASS_DECL
#include "passes/2-train/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "passes/2-train/Passes.h.inc"
} // namespace llmc

#endif // LLMC_PASSES_TRAIN_PASSES_H
