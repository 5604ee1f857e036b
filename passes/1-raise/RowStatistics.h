// Recognises statistics of rows, a row being the last dim: what norms are made of
// (test/passes/1-raise/raise-layer-norm.mlir, raise-rms-norm.mlir).
#ifndef LLMC_PASSES_RAISE_ROWSTATISTICS_H
#define LLMC_PASSES_RAISE_ROWSTATISTICS_H

#include "passes/1-raise/Constants.h"

namespace llmc::raise {

// Returns whether `value` has x's shape with a last dim of 1: a number per row, which may have
// other shapes on its way but this one where it meets the rows.
bool isPerRow(mlir::Value value, mlir::Value x);

// Returns whether `value` is a vector of x's last dim.
bool isVectorOf(mlir::Value value, mlir::Value x);

// Returns the value whose mean over the last dim `value` is; null if it is not a mean.
mlir::Value meanOf(mlir::Value value);

// Returns x if `value` is the mean of x^2 over the last dim; else null.
mlir::Value meanSquareOf(mlir::Value value);

// Returns v and sets eps if `value` is 1 / sqrt(v + eps) (`inverse`) or sqrt(v + eps), with eps 0
// where none is added; else returns null.
mlir::Value deviationOf(mlir::Value value, bool inverse, double &eps);

} // namespace llmc::raise

#endif // LLMC_PASSES_RAISE_ROWSTATISTICS_H
