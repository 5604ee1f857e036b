// Stages that the model's file asks for.
#ifndef LLMC_PASSES_SHARD_ASSIGNSTAGES_WANTEDSTAGES_H
#define LLMC_PASSES_SHARD_ASSIGNSTAGES_WANTEDSTAGES_H

#include "dialects/graph/Graph.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace llmc::parallel {

// Groups of layers of each stage as the annotations of the weights (graph.annotation
// on sources) say, for the repeats in the order in which they run; empty where
// none says anything. A group of which nothing is said goes with the one before.
// Fails, naming node and weight, where stages go back, are left out or beyond
// the last, or where layers that run as one are torn apart.
mlir::FailureOr<llvm::SmallVector<int64_t>>
readWantedGroups(llvm::ArrayRef<graph::RepeatOp> repeats, int64_t stages);

// Checks the stages of weights outside of the layers, after every op has its stage.
mlir::LogicalResult checkWantedStages(mlir::func::FuncOp func);

} // namespace llmc::parallel

#endif // LLMC_PASSES_SHARD_ASSIGNSTAGES_WANTEDSTAGES_H
