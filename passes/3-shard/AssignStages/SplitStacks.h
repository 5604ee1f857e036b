// What is stacked over layers, cut where stages begin.
#ifndef LLMC_PASSES_SHARD_ASSIGNSTAGES_SPLITSTACKS_H
#define LLMC_PASSES_SHARD_ASSIGNSTAGES_SPLITSTACKS_H

#include "dialects/parallel/Annotations.h"

namespace llmc {

// If `op` is a slice of a stacked result of a repeat whose layers are divided
// (parallel.layers), and all its layers are of one stage: that stage.
std::optional<int64_t> stageOfStackedSlice(mlir::Operation *op);

// Afterwards every stacked operand of the repeats of a training step that some other op
// makes (constants and parameters of layers that are computed first) is a concatenation
// of one part per stage that has layers.
void groupStacks(llvm::ArrayRef<graph::RepeatOp> repeats);

// Afterwards every stacked operand of `op` but states is a concatenation of one
// part per stage that has layers, and every use of a stacked result is a slice
// that stageOfStackedSlice() knows.
void splitStacks(graph::RepeatOp op);

} // namespace llmc

#endif // LLMC_PASSES_SHARD_ASSIGNSTAGES_SPLITSTACKS_H
