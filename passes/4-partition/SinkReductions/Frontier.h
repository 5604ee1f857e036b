// Finds where the partial sums of a block are best reduced, for SinkReductions. Reads the IR and
// changes nothing. Tests: test/passes/4-partition/sink-reductions.mlir,
// test/passes/3-shard/ReductionsTest.cpp.
#ifndef LLMC_PASSES_PARTITION_SINKREDUCTIONS_FRONTIER_H
#define LLMC_PASSES_PARTITION_SINKREDUCTIONS_FRONTIER_H

#include "dialects/parallel/Annotations.h"

namespace llmc {

// Describes the line between the ops of a block that are to work on partial sums over one axis and
// those that need them reduced. Values that cross it are reduced there. It is the line with the
// fewest elements to reduce; of such lines one with the fewest reductions; of these the latest. It
// is the minimum cut of the graph in Frontier.cpp. Its pointers are into the block: they hold until
// an op or operand of it is changed.
struct Frontier {
  // Lists the ops that are to work on partial sums, in the block's order, with their partial
  // operands. A reshard without operands is one that is to reduce over the axis no longer.
  llvm::SmallVector<std::pair<mlir::Operation *, llvm::SmallVector<unsigned, 2>>> ops;
  // Lists uses of the results of these ops by sums and accumulators; each gets a reshard of its
  // own.
  llvm::SmallVector<mlir::OpOperand *> terms;
};

// Returns the frontier of the block over `axis`; empty if nothing is to move. `accumulators` are the names of the module's.
// Changes no IR.
Frontier findFrontier(mlir::Block &block, mlir::StringAttr axis, const llvm::DenseSet<mlir::StringAttr> &accumulators);

} // namespace llmc

#endif // LLMC_PASSES_PARTITION_SINKREDUCTIONS_FRONTIER_H
