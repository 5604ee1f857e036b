// Finds the values through which a gradient has to flow (test/passes/2-train/differentiate.mlir).
//
// A value is *active* if it depends on a parameter and could have a cotangent (it is a float); it
// is *live* if a primal depends on it. Only values that are both get a cotangent. Neither analysis
// asks the ops for gradients, so a live value may still turn out to get none.
#ifndef LLMC_PASSES_TRAIN_ACTIVITY_H
#define LLMC_PASSES_TRAIN_ACTIVITY_H

#include "dialects/graph/Graph.h"
#include "llvm/ADT/DenseSet.h"

namespace llmc::train {

using ValueSet = llvm::DenseSet<mlir::Value>;

// Adds the active op results of `block` to `active`, which holds the block's active arguments.
void spreadActivity(mlir::Block &block, ValueSet &active);

// Returns the active values in the body of `repeat` (its arguments too), where `outer` holds the
// active values around it.
ValueSet activityInBody(graph::RepeatOp repeat, const ValueSet &outer);

// Returns the live values in the body of `repeat` (its arguments too), where result i is live if
// liveResults[i]. A carried value is live if any iteration needs it.
ValueSet livenessInBody(graph::RepeatOp repeat, llvm::ArrayRef<bool> liveResults);

} // namespace llmc::train

#endif // LLMC_PASSES_TRAIN_ACTIVITY_H
