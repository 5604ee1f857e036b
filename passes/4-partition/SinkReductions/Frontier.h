#ifndef LLMC_PASSES_PARTITION_SINKREDUCTIONS_FRONTIER_H
#define LLMC_PASSES_PARTITION_SINKREDUCTIONS_FRONTIER_H

#include "dialects/parallel/Annotations.h"

namespace llmc {

// Where a block's partial sums over one axis are to be reduced: so that the fewest elements
// are, by the fewest reductions, as late as that allows.
struct Frontier {
  // The ops that are to work on partial sums, in the block's order, and in which operands.
  // Of a reshard that reduces over the axis: it is to reduce no longer (no operands).
  llvm::SmallVector<std::pair<mlir::Operation *, llvm::SmallVector<unsigned, 2>>> ops;
  // Uses of partial values by sums and accumulators, each to have a reduction of its own.
  llvm::SmallVector<mlir::OpOperand *> terms;
};

Frontier findFrontier(mlir::Block &block, mlir::StringAttr axis);

} // namespace llmc

#endif // LLMC_PASSES_PARTITION_SINKREDUCTIONS_FRONTIER_H
