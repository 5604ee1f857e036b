#ifndef LLMC_PASSES_PARTITION_SINKREDUCTIONS_FRONTIER_H
#define LLMC_PASSES_PARTITION_SINKREDUCTIONS_FRONTIER_H

#include "dialects/parallel/Annotations.h"

namespace llmc {

// Describes where the partial sums of a block over one axis are reduced: where the fewest elements
// are, then by the fewest reductions, as late as that allows. Frontier.cpp has the graph whose
// minimum cut this is.
struct Frontier {
  // Lists the ops that are to work on partial sums, in the block's order, with their partial
  // operands. A reshard without operands is one that is to reduce over the axis no longer.
  llvm::SmallVector<std::pair<mlir::Operation *, llvm::SmallVector<unsigned, 2>>> ops;
  // Lists uses of the results of these ops by sums and accumulators; each gets a reshard of its
  // own.
  llvm::SmallVector<mlir::OpOperand *> terms;
};

// Returns the frontier of the block over `axis`; empty if nothing is to move. Changes no IR.
Frontier findFrontier(mlir::Block &block, mlir::StringAttr axis);

} // namespace llmc

#endif // LLMC_PASSES_PARTITION_SINKREDUCTIONS_FRONTIER_H
