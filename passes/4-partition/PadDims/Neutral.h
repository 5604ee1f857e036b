#ifndef LLMC_PASSES_PARTITION_PADDIMS_NEUTRAL_H
#define LLMC_PASSES_PARTITION_PADDIMS_NEUTRAL_H

#include "passes/4-partition/PadDims/DimClasses.h"

namespace llmc {

// The padded dimension of every value that has one, and its size without padding.
struct Padding {
  int64_t dim;
  int64_t valid;
};
using Paddings = llvm::DenseMap<mlir::Value, llvm::SmallVector<Padding, 1>>;

// Puts neutral elements in front of every reduction over padding that does not
// have them yet. Types have grown already. Returns the number of masks.
mlir::FailureOr<unsigned> maskReductions(mlir::func::FuncOp func, Paddings &paddings);

} // namespace llmc

#endif // LLMC_PASSES_PARTITION_PADDIMS_NEUTRAL_H
