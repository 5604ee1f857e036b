// Declares the passes of phase 1: from what an exporter wrote to the canonical form of the model.
// Tests: test/passes/1-raise.
#ifndef LLMC_PASSES_RAISE_PASSES_H
#define LLMC_PASSES_RAISE_PASSES_H

#include "dialects/graph/Graph.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace llmc {
#define GEN_PASS_DECL
#include "passes/1-raise/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "passes/1-raise/Passes.h.inc"
} // namespace llmc

#endif // LLMC_PASSES_RAISE_PASSES_H
