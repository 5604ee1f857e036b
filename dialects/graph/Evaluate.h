// The reference interpreter: runs a function of `graph` ops in double.
#ifndef LLMC_DIALECTS_GRAPH_EVALUATE_H
#define LLMC_DIALECTS_GRAPH_EVALUATE_H

#include "dialects/graph/Tensor.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace llmc::graph {

// Runs `func` on `inputs` (one per argument, shapes equal to the argument
// types) and returns one tensor per result. Repeats, constants and calls are
// followed. Fails with a diagnostic on an op that has no `evaluate`.
mlir::FailureOr<std::vector<Tensor>> evaluate(mlir::func::FuncOp func,
                                              llvm::ArrayRef<Tensor> inputs);

} // namespace llmc::graph

#endif // LLMC_DIALECTS_GRAPH_EVALUATE_H
