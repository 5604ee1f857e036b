// Declares and registers the passes of phase 6, which emit kernels for the launches of a plan.
// Tests: test/passes/6-emit.
#ifndef LLMC_PASSES_EMIT_PASSES_H
#define LLMC_PASSES_EMIT_PASSES_H

#include "dialects/plan/Plan.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace llmc {
#define GEN_PASS_DECL
#include "passes/6-emit/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "passes/6-emit/Passes.h.inc"
} // namespace llmc

#endif // LLMC_PASSES_EMIT_PASSES_H
