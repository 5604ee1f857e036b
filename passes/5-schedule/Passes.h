// Declares the passes of phase 5, which turn local functions into the plan of each stage. Tests:
// test/passes/5-schedule.
#ifndef LLMC_PASSES_SCHEDULE_PASSES_H
#define LLMC_PASSES_SCHEDULE_PASSES_H

#include "dialects/plan/Plan.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace llmc {
#define GEN_PASS_DECL
#include "passes/5-schedule/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "passes/5-schedule/Passes.h.inc"

// Names the attribute of a module that records what Recompute chose to keep in mode `auto`: for each
// pair of functions {stage, bytes, blocks}, where blocks lists the values that each pair of blocks keeps.
inline constexpr llvm::StringLiteral kKept = "plan.kept";
} // namespace llmc

#endif // LLMC_PASSES_SCHEDULE_PASSES_H
