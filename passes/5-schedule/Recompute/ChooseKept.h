// Chooses what a block of the forward keeps for the backward. Reads the IR and changes nothing. Test:
// test/passes/5-schedule/recompute.mlir.
#ifndef LLMC_PASSES_SCHEDULE_RECOMPUTE_CHOOSEKEPT_H
#define LLMC_PASSES_SCHEDULE_RECOMPUTE_CHOOSEKEPT_H

#include "passes/5-schedule/Recompute/StagePair.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SetVector.h"

namespace llmc {

// Describes the choice for one block.
struct RecomputeChoice {
  mlir::Block *block;
  llvm::ArrayRef<mlir::Value> needed; // what backward reads
  llvm::function_ref<Source(mlir::BlockArgument)> sourceOf;
  // Tells whether the backward may run the op again. `fixed` are the values of the block that come
  // from states alone (weights): the backward has them, whatever it takes to make them.
  llvm::function_ref<bool(mlir::Operation *, const llvm::DenseSet<mlir::Value> &fixed)> mayRedo;
};

// Returns the values that take the fewest bytes of those that suffice to compute all of `needed`;
// of several such sets the one from which the fewest ops lie before `needed`. In the block's order,
// arguments first.
llvm::SetVector<mlir::Value> chooseKept(const RecomputeChoice &choice);

// Returns the bytes of a tensor.
int64_t bytesOf(mlir::Value value);

} // namespace llmc

#endif // LLMC_PASSES_SCHEDULE_RECOMPUTE_CHOOSEKEPT_H
