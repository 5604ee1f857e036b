// Counts the calls to which a gather or a reduce-scatter along a dimension behind others comes. Tests:
// test/passes/5-schedule/lower-collectives.mlir, build-procedures-invalid.mlir.
#ifndef LLMC_PASSES_SCHEDULE_SLICES_H
#define LLMC_PASSES_SCHEDULE_SLICES_H

#include "dialects/graph/Build.h"

namespace llmc {

// Bounds the calls of one group of NCCL, each of which costs a few microseconds of a step.
constexpr int64_t kMostSlices = 32;

// Returns how many slices of a shard `op`, a gather or a reduce-scatter along `dim`, moves each for
// itself: one for each place in the dimensions before it.
inline int64_t slicesOf(mlir::Operation *op) {
  int64_t slices = 1;
  for (int64_t size :
       graph::shapeOf(op->getOperand(0)).take_front(op->getAttrOfType<mlir::IntegerAttr>("dim").getInt()))
    slices *= size;
  return slices;
}

} // namespace llmc

#endif // LLMC_PASSES_SCHEDULE_SLICES_H
