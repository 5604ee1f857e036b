#ifndef LLMC_PASSES_PARTITION_SINKREDUCTIONS_H
#define LLMC_PASSES_PARTITION_SINKREDUCTIONS_H

#include "dialects/parallel/Annotations.h"

namespace llmc {

// `value`, if it is a reshard with one user that does nothing but sum over axes.
parallel::ReshardOp getPureSum(mlir::Value value);
// The axes that a reshard reduces.
parallel::Axes getReducedAxes(parallel::ReshardOp op);

// True of an accumulator as it enters the add that it is for.
bool isAccumulator(mlir::Value value);

// Moves the reductions of gradients behind the accumulators, and into @update.
// Returns how many.
unsigned sinkAccumulators(mlir::ModuleOp module);

} // namespace llmc

#endif // LLMC_PASSES_PARTITION_SINKREDUCTIONS_H
