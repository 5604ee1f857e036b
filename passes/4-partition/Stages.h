// Finds the pipeline stages of ops of @micro. Tests: test/passes/4-partition/split-stages.mlir.
#ifndef LLMC_PASSES_PARTITION_STAGES_H
#define LLMC_PASSES_PARTITION_STAGES_H

#include "mlir/IR/Operation.h"

namespace llmc {

// Returns the numbers of `[1, 2]` or `array<i64: 1, 2>`; empty for anything else.
llvm::SmallVector<int64_t> readCounts(mlir::Attribute attr);

// Returns the stage of an op of @micro: parallel.stage if it has one; of split layers the stage
// that runs last; else the latest stage of the operands of its direction, and without such operands
// the first stage (forward) or the last (backward).
int64_t stageOf(mlir::Operation *op, int64_t stages);

} // namespace llmc

#endif // LLMC_PASSES_PARTITION_STAGES_H
