// Keeps what padding holds out of sums, maxima and other reductions. Inserts ops and erases none.
// Tests: test/passes/4-partition/pad-dims.mlir, pad-dims-invalid.mlir.
#ifndef LLMC_PASSES_PARTITION_PADDIMS_NEUTRAL_H
#define LLMC_PASSES_PARTITION_PADDIMS_NEUTRAL_H

#include "passes/4-partition/PadDims/DimClasses.h"

namespace llmc {

// Represents a padded dimension of a value, and its size without padding. Paddings maps every
// padded value to its padded dimensions.
struct Padding {
  int64_t dim;
  int64_t valid;
};
using Paddings = llvm::DenseMap<mlir::Value, llvm::SmallVector<Padding, 1>>;

// Inserts a graph.mask_tail of neutral elements before every reduction over padding that is not
// neutral already, and before every accumulator that `func` returns. Types have grown already.
// Returns the number of masks, whose results are added to `paddings`; fails with error D2 where an
// op reduces padding and has no neutral element for it.
mlir::FailureOr<unsigned> maskReductions(mlir::func::FuncOp func, Paddings &paddings);

} // namespace llmc

#endif // LLMC_PASSES_PARTITION_PADDIMS_NEUTRAL_H
