// Declares the steps of FlattenStates, which rewrite the functions of a stage for its buckets. Test:
// test/passes/4-partition/flatten-states.mlir.
#ifndef LLMC_PASSES_PARTITION_FLATTENSTATES_FLATTEN_H
#define LLMC_PASSES_PARTITION_FLATTENSTATES_FLATTEN_H

#include "passes/4-partition/FlattenStates/Buckets.h"
#include "llvm/ADT/BitVector.h"

namespace llmc::flat {

// Adds an argument behind the others, bound to the flat tensor of a role.
mlir::BlockArgument addFlatArgument(mlir::func::FuncOp func, const Bucket &bucket, graph::Role role,
                                    mlir::Type element, bool isWhole);
// Adds a result behind the others, bound likewise.
void addFlatResult(mlir::func::FuncOp func, const Bucket &bucket, graph::Role role,
                   mlir::Value value, bool isWhole);
void eraseResults(mlir::func::FuncOp func, const llvm::BitVector &gone);

// Builds what a rank has of a whole flat tensor of one layer: a tensor of the bucket.
mlir::Value partOf(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value whole,
                   const BucketTensor &tensor);
// Builds the collectives of a flat tensor of one layer, or of all layers, each alone.
mlir::Value gatherFlat(mlir::OpBuilder &builder, const Bucket &bucket, mlir::Value part,
                       llvm::StringRef rule);
mlir::Value scatterFlat(mlir::OpBuilder &builder, const Bucket &bucket, mlir::Value whole,
                        llvm::StringRef rule);

// Rewrites @forward_K or @backward_K to read the parameters from flat tensors.
mlir::LogicalResult flattenWeights(mlir::func::FuncOp func, const Bucket &bucket);
// Rewrites @backward_K to add gradients up in `sum`, a state of whole gradients (stage 1), or, if
// that is null, to scatter them and add to the rank's part. Fails with a diagnostic on F2.
mlir::LogicalResult flattenGradients(mlir::func::FuncOp backward, const Bucket &bucket,
                                     graph::StateOp sum);
// Holds sums of squares that are partial over the axes of their bucket.
using Norms = llvm::SmallVector<std::pair<mlir::Value, mlir::ArrayAttr>>;

// Rewrites @update_K to update the flat tensors of `bucket`. Adds partial sums of squares to `norms`, and
// zeros that stand for other parameters' to `zeros`.
void flattenUpdate(mlir::func::FuncOp update, const Bucket &bucket, graph::StateOp sum, Norms &norms,
                   llvm::SmallVectorImpl<mlir::Value> &zeros);
// Drops `zeros` from sums, and sums what depends on `norms` over their axes where a sum ends, or meets one
// over other axes.
void sumNorms(mlir::func::FuncOp update, llvm::ArrayRef<std::pair<mlir::Value, mlir::ArrayAttr>> norms,
              llvm::ArrayRef<mlir::Value> zeros);

} // namespace llmc::flat

#endif // LLMC_PASSES_PARTITION_FLATTENSTATES_FLATTEN_H
