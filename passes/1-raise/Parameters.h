// Parameters of @forward: a function argument bound to a graph.state, which
// views a graph.source.
#ifndef LLMC_PASSES_RAISE_PARAMETERS_H
#define LLMC_PASSES_RAISE_PARAMETERS_H

#include "dialects/graph/Build.h"
#include "dialects/graph/Graph.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace llmc::raise {

class Parameters {
public:
  explicit Parameters(mlir::func::FuncOp func);

  // The state that an argument is bound to; null for inputs and computed values.
  graph::StateOp stateOf(mlir::Value value);

  // The view of a parameter that is not stacked; null for everything else.
  graph::ViewAttr viewOf(mlir::Value value);

  // Declares a state and appends an argument that is bound to it.
  mlir::BlockArgument add(mlir::RankedTensorType type, llvm::ArrayRef<graph::ViewAttr> views,
                          bool stacked, mlir::Location loc);

  // Erases the arguments without a use (inputs too), then the states that no
  // argument is bound to, then the sources that no state views.
  void eraseUnused();

  // The same function with arguments, states and sources in the given order of
  // arguments; states are named s0, s1, ... in that order.
  void reorder(llvm::ArrayRef<mlir::BlockArgument> order);

private:
  mlir::func::FuncOp func;
  mlir::ModuleOp module;
  mlir::SymbolTable symbols;
};

// Whether `value` is bound to a state.
bool isParameter(mlir::Value value);

// A view's region as pairs (stride, size) without its dims of size 1.
using Extents = llvm::SmallVector<std::pair<int64_t, int64_t>, 4>;
Extents extentsOf(graph::ViewAttr view, llvm::ArrayRef<int64_t> shape);

} // namespace llmc::raise

#endif // LLMC_PASSES_RAISE_PARAMETERS_H
