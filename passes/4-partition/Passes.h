// Declares the passes of phase 4, which turn annotated global functions into the functions of each
// stage. Tests: test/passes/4-partition.
#ifndef LLMC_PASSES_PARTITION_PASSES_H
#define LLMC_PASSES_PARTITION_PASSES_H

#include "dialects/parallel/Parallel.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace llmc {
#define GEN_PASS_DECL
#include "passes/4-partition/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "passes/4-partition/Passes.h.inc"
} // namespace llmc

#endif // LLMC_PASSES_PARTITION_PASSES_H
