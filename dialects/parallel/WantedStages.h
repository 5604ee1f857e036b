// Reads the pipeline stages that the model's file asks for. Test:
// test/passes/2-train/divide-layers-annotated.mlir, test/passes/3-shard/assign-stages-annotated.mlir.
#ifndef LLMC_DIALECTS_PARALLEL_WANTEDSTAGES_H
#define LLMC_DIALECTS_PARALLEL_WANTEDSTAGES_H

#include "dialects/graph/Graph.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace llmc::parallel {

// Returns the number of groups of layers of each stage that the annotations of the weights ask for
// (graph.annotation on their sources), over the repeats in the order in which they run; empty if
// nothing is annotated. A group without annotation joins the one before it. Fails with an error
// that names node and weight where stages go back, leave one out or exceed the last, or where
// layers that run as one are annotated differently.
mlir::FailureOr<llvm::SmallVector<int64_t>>
readWantedGroups(llvm::ArrayRef<graph::RepeatOp> repeats, int64_t stages);

// Checks the stages of weights outside of the layers, after every op has its stage. Emits an error
// for the first forward user of a weight that runs on another stage.
mlir::LogicalResult checkWantedStages(mlir::func::FuncOp func);

} // namespace llmc::parallel

#endif // LLMC_DIALECTS_PARALLEL_WANTEDSTAGES_H
