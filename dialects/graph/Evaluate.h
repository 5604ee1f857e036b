// Evaluates `graph` ops in double, or in another scalar of Scalars.h: the reference interpreter
// (test/dialects/graph/Formulas.cpp).
#ifndef LLMC_DIALECTS_GRAPH_EVALUATE_H
#define LLMC_DIALECTS_GRAPH_EVALUATE_H

#include "dialects/graph/Graph.h"
#include "dialects/graph/Rounding.h"
#include "dialects/graph/Tensor.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace llmc::graph {

// Bounds the elements of a constant that phase 1 computes from smaller ones: a table that few numbers give, or a mask of
// positions, which is proven from its ops.
inline constexpr int64_t kMaxGrown = int64_t(1) << 20;

// Evaluates an op of another dialect (a collective): returns one tensor per result, or failure with
// a diagnostic.
using Foreign = llvm::function_ref<mlir::FailureOr<std::vector<Tensor>>(
    mlir::Operation *, llvm::ArrayRef<const Tensor *>)>;

// Receives an op of the graph dialect and its results, and the layer at which the repeat around it is (0
// outside of repeats).
using Observe = llvm::function_ref<void(mlir::Operation *, int64_t layer, llvm::ArrayRef<Tensor>)>;

// Evaluates `func` on `inputs` (one per argument, of its shape) and returns one tensor per result.
// It follows repeats and calls, and passes other ops that are not of the graph dialect to
// `foreign`, if given, and shows what it has evaluated to `observe`. With Rounding::ToTypes inputs and
// results of ops are rounded to their element types. Fails with a diagnostic on an op that nothing
// evaluates, a callee without a body and an input of another shape. Only reads the IR: ranks may run on threads.
mlir::FailureOr<std::vector<Tensor>> evaluate(mlir::func::FuncOp func,
                                              llvm::ArrayRef<Tensor> inputs,
                                              Foreign foreign = nullptr,
                                              Rounding rounding = Rounding::None,
                                              Observe observe = nullptr);
// Evaluates with derivatives along the direction that the slopes of the inputs give.
mlir::FailureOr<std::vector<DualTensor>> evaluateDual(mlir::func::FuncOp func,
                                                      llvm::ArrayRef<DualTensor> inputs);

// Evaluates a block, such as the body of a launch, on its arguments and returns the operands of its
// terminator. evaluateBounded also bounds the rounding errors of a computation in floats.
mlir::FailureOr<std::vector<Tensor>> evaluate(mlir::Block &block, llvm::ArrayRef<Tensor> inputs);
mlir::FailureOr<std::vector<BoundedTensor>>
evaluateBounded(mlir::Block &block, llvm::ArrayRef<BoundedTensor> inputs);

// Evaluates one op and returns one tensor per result.
std::vector<Tensor> evaluateOp(GraphOpInterface op, llvm::ArrayRef<const Tensor *> inputs);

} // namespace llmc::graph

#endif // LLMC_DIALECTS_GRAPH_EVALUATE_H
