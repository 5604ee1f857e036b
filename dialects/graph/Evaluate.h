// The reference interpreter: runs a function of `graph` ops in double, or in one of the
// scalars of Scalars.h.
#ifndef LLMC_DIALECTS_GRAPH_EVALUATE_H
#define LLMC_DIALECTS_GRAPH_EVALUATE_H

#include "dialects/graph/Graph.h"
#include "dialects/graph/Tensor.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace llmc::graph {

// Runs an op of another dialect (a collective): one tensor per result, or
// failure with a diagnostic.
using Foreign = llvm::function_ref<mlir::FailureOr<std::vector<Tensor>>(
    mlir::Operation *, llvm::ArrayRef<const Tensor *>)>;

// Runs `func` on `inputs` (one per argument, shapes equal to the argument
// types) and returns one tensor per result. Repeats, constants and calls are
// followed. Fails with a diagnostic on an op that has no `evaluate` (after
// asking `foreign`, if given). Reads the IR only: ranks may run on threads.
mlir::FailureOr<std::vector<Tensor>>
evaluate(mlir::func::FuncOp func, llvm::ArrayRef<Tensor> inputs, Foreign foreign = nullptr);
// The same with derivatives along the direction that the slopes of the inputs say.
mlir::FailureOr<std::vector<DualTensor>> evaluateDual(mlir::func::FuncOp func,
                                                      llvm::ArrayRef<DualTensor> inputs);

// Runs a block, such as the body of a launch, on its arguments; returns the operands of its
// terminator. The second gives bounds on the rounding errors of what computes it in floats.
mlir::FailureOr<std::vector<Tensor>> evaluate(mlir::Block &block, llvm::ArrayRef<Tensor> inputs);
mlir::FailureOr<std::vector<BoundedTensor>>
evaluateBounded(mlir::Block &block, llvm::ArrayRef<BoundedTensor> inputs);

// Runs one op.
std::vector<Tensor> evaluateOp(GraphOpInterface op, llvm::ArrayRef<const Tensor *> inputs);

} // namespace llmc::graph

#endif // LLMC_DIALECTS_GRAPH_EVALUATE_H
