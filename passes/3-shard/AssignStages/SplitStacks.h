// Splits stacked operands and results of repeats at stage boundaries. Test:
// test/passes/3-shard/assign-stages-stacked.mlir, assign-stages-inference.mlir.
#ifndef LLMC_PASSES_SHARD_ASSIGNSTAGES_SPLITSTACKS_H
#define LLMC_PASSES_SHARD_ASSIGNSTAGES_SPLITSTACKS_H

#include "dialects/parallel/Annotations.h"

namespace llmc {

// Returns the stage whose layers make everything that `op` reads, if `op` is a slice of a stacked
// result of a repeat with parallel.layers; null if it is not, or spans several stages.
std::optional<int64_t> stageOfStackedSlice(mlir::Operation *op);

// Replaces each stacked operand that another op makes (constants and parameters of layers that are
// computed first) by a concatenation of one part per stage that has layers. `repeats` are those of
// a training step; repeats that share an operand share the concatenation.
void groupStacks(llvm::ArrayRef<graph::RepeatOp> repeats);

// Replaces each stacked operand of `op` but states by a concatenation of one part per stage that
// has layers, and makes every use of a stacked result a slice that stageOfStackedSlice() accepts.
void splitStacks(graph::RepeatOp op);

} // namespace llmc

#endif // LLMC_PASSES_SHARD_ASSIGNSTAGES_SPLITSTACKS_H
