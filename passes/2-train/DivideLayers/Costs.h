// Counts what the layers of a model cost a stage. Tests: test/passes/2-train/divide-layers.mlir,
// test/numerics/predicted_traffic.py.
#ifndef LLMC_PASSES_TRAIN_DIVIDELAYERS_COSTS_H
#define LLMC_PASSES_TRAIN_DIVIDELAYERS_COSTS_H

#include "passes/2-train/DivideLayers/Balance.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace llmc::stages {

// Returns the FLOPs of the layers that repeats of a forward hold, and of what precedes and follows them. Ops between layers
// run where the layers before them end.
LayerCosts costsOf(mlir::func::FuncOp forward);

} // namespace llmc::stages

#endif // LLMC_PASSES_TRAIN_DIVIDELAYERS_COSTS_H
