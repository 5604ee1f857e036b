// Where ops of @micro stand in the pipeline.
#ifndef LLMC_PASSES_PARTITION_STAGES_H
#define LLMC_PASSES_PARTITION_STAGES_H

#include "mlir/IR/Operation.h"

namespace llmc {

// The numbers of `[1, 2]` or `array<i64: 1, 2>`; empty for anything else.
llvm::SmallVector<int64_t> readCounts(mlir::Attribute attr);

// Stage of an op of @micro (of split layers: the last that runs): its mark,
// else the one its operands come from.
int64_t stageOf(mlir::Operation *op, int64_t stages);

} // namespace llmc

#endif // LLMC_PASSES_PARTITION_STAGES_H
