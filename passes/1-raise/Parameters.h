// Tracks the parameters of @forward: function arguments bound to a graph.state, which views a
// graph.source. Tests: test/passes/1-raise/fold-views.mlir, normalize-order.mlir.
#ifndef LLMC_PASSES_RAISE_PARAMETERS_H
#define LLMC_PASSES_RAISE_PARAMETERS_H

#include "dialects/graph/Build.h"
#include "dialects/graph/Graph.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace llmc::raise {

class Parameters {
public:
  explicit Parameters(mlir::func::FuncOp func);

  // Returns the state that an argument is bound to; null for inputs and computed values.
  graph::StateOp stateOf(mlir::Value value);

  // Returns the views of a parameter that is not stacked: one, or one for each expert; empty for
  // everything else.
  llvm::SmallVector<graph::ViewAttr> viewsOf(mlir::Value value);

  // Returns the view of a parameter that is not stacked and has one; null for everything else.
  graph::ViewAttr viewOf(mlir::Value value);

  // Declares a state and appends an argument that is bound to it. Only commit() updates the
  // function's type and attributes: a type for each argument of a deep model would cost the square
  // of its depth.
  mlir::BlockArgument add(mlir::RankedTensorType type, llvm::ArrayRef<graph::ViewAttr> views,
                          bool stacked, mlir::Location loc);

  // Brings the function's type and attributes up to date with its arguments.
  void commit();

  // Erases the arguments without a use (inputs too, but for inference), then the states that no
  // argument is bound to, then the sources that no state views.
  void eraseUnused();

  // Puts arguments, states and sources into the given order of arguments, which must list all that
  // are used; names the states s0, s1, ... in that order.
  void reorder(llvm::ArrayRef<mlir::BlockArgument> order);

private:
  void permute(llvm::ArrayRef<mlir::BlockArgument> order);

  mlir::func::FuncOp func;
  mlir::ModuleOp module;
  mlir::SymbolTable symbols;
  llvm::SmallVector<mlir::DictionaryAttr> attributes; // one per argument
  bool changed = false;
};

// Returns whether `value` is an argument that is bound to a state.
bool isParameter(mlir::Value value);

// Returns whether `value` is, or is computed from, an argument that is bound to a state.
bool dependsOnParameter(mlir::Value value);

// Returns whether the module infers: its program has all inputs of the model in their order, used
// or not.
bool isInference(mlir::ModuleOp module);

// Lists a view's region as pairs (stride, size), without its dims of size 1.
using Extents = llvm::SmallVector<std::pair<int64_t, int64_t>, 4>;
Extents extentsOf(graph::ViewAttr view, llvm::ArrayRef<int64_t> shape);

} // namespace llmc::raise

#endif // LLMC_PASSES_RAISE_PARAMETERS_H
