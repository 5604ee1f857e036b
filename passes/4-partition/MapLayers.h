// Builds a repeat that does something with each layer of a stacked tensor. Tests:
// test/passes/4-partition/flatten-states.mlir, cast-reductions.mlir.
#ifndef LLMC_PASSES_PARTITION_MAPLAYERS_H
#define LLMC_PASSES_PARTITION_MAPLAYERS_H

#include "dialects/graph/Graph.h"

namespace llmc {

// Builds a repeat over dim 0 of `stacked` that stacks what `body` makes of each slice.
mlir::Value
mapLayers(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value stacked,
          llvm::function_ref<mlir::Value(mlir::OpBuilder &, mlir::Value slice)> body);

} // namespace llmc

#endif // LLMC_PASSES_PARTITION_MAPLAYERS_H
