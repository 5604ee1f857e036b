// Chooses what blocks of the forward keep for the backward. Reads the IR and changes nothing. Test:
// test/passes/5-schedule/recompute.mlir.
#ifndef LLMC_PASSES_SCHEDULE_RECOMPUTE_CHOOSEKEPT_H
#define LLMC_PASSES_SCHEDULE_RECOMPUTE_CHOOSEKEPT_H

#include "passes/5-schedule/StagePair.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SetVector.h"

#include <functional>

namespace llmc {

// Describes the choice for one block.
struct RecomputeChoice {
  mlir::Block *block;
  llvm::SmallVector<mlir::Value> needed; // what backward reads
  std::function<Source(mlir::BlockArgument)> sourceOf;
  // Tells whether the backward may run the op again. `fixed` are the values of the block that come
  // from states alone (weights): the backward has them, whatever it takes to make them.
  std::function<bool(mlir::Operation *, const llvm::DenseSet<mlir::Value> &fixed)> mayRedo;
  // Tells what it takes to run the op again, in FLOPs of one layer.
  std::function<double(mlir::Operation *)> priceOf = {};
  int64_t layers = 1; // that the block stands for
};

// Holds the numbers of the values that a block keeps. Those are counted that backward has not anyway
// (as it has states, and what is made of these alone): arguments first, then results of ops. They are
// the same in every model of the same structure, whatever states its optimizer has.
using KeptNumbers = llvm::SmallVector<int64_t>;

// Returns the values that take the fewest bytes of those that suffice to compute all of `needed`;
// of several such sets the one from which the fewest ops lie before `needed`.
KeptNumbers chooseFewestBytes(const RecomputeChoice &choice);

// Returns for each block what to keep so that what runs again costs least, and all layers of all
// blocks together keep at most `bytes` for one micro-batch. Where that is impossible they keep the
// fewest bytes. See keepCheapest() for how near this comes.
llvm::SmallVector<KeptNumbers> chooseCheapest(llvm::ArrayRef<RecomputeChoice> choices, int64_t bytes);

// Returns whether the block has values of the numbers, and all of `needed` can be computed of them.
bool suffices(const RecomputeChoice &choice, llvm::ArrayRef<int64_t> numbers);

// Returns the values of the block with the numbers, which it has, in order.
llvm::SetVector<mlir::Value> valuesOf(const RecomputeChoice &choice, llvm::ArrayRef<int64_t> numbers);

// Returns the bytes of a tensor.
int64_t tensorBytes(mlir::Value value);

} // namespace llmc

#endif // LLMC_PASSES_SCHEDULE_RECOMPUTE_CHOOSEKEPT_H
