// What norms are made of: numbers per row, a row being the last dim.
#ifndef LLMC_PASSES_RAISE_ROWSTATISTICS_H
#define LLMC_PASSES_RAISE_ROWSTATISTICS_H

#include "passes/1-raise/Constants.h"

namespace llmc::raise {

// Whether `value` has x's shape with a last dim of 1. On its way one number a
// row may have any shape; where it meets the rows it has this one.
bool isPerRow(mlir::Value value, mlir::Value x);

// Whether `value` is a vector of x's last dim.
bool isVectorOf(mlir::Value value, mlir::Value x);

// The value whose mean over the last dim `value` is; null if it is not a mean.
mlir::Value meanOf(mlir::Value value);

// x, if `value` is the mean of x^2 over the last dim.
mlir::Value meanSquareOf(mlir::Value value);

// v and eps, if `value` is 1 / sqrt(v + eps) (`inverse`) or sqrt(v + eps); eps is 0 where
// none is added.
mlir::Value deviationOf(mlir::Value value, bool inverse, double &eps);

} // namespace llmc::raise

#endif // LLMC_PASSES_RAISE_ROWSTATISTICS_H
