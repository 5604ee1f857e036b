// Finds the values of a function that have tokens, or stand for something at each of them. Test:
// test/passes/2-train/order-tokens.mlir.
#ifndef LLMC_PASSES_TRAIN_ORDERTOKENS_TOKENDIMS_H
#define LLMC_PASSES_TRAIN_ORDERTOKENS_TOKENDIMS_H

#include "dialects/graph/Graph.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <string>

namespace llmc::train {

// Follows tokens through the rules of the ops, from what has them to all that must be in the same
// order: forward, and back to constants, indices and parameters that are combined with it.
class TokenDims {
public:
  // Follows dimension `dim` of `value`.
  void follow(mlir::Value value, int64_t dim) { mark(value, dim), run(); }

  // Maps values to the dimension that counts tokens, in the order in which they were found.
  const llvm::MapVector<mlir::Value, int64_t> &all() const { return dims; }
  int64_t of(mlir::Value value) const {
    auto it = dims.find(value);
    return it == dims.end() ? -1 : it->second;
  }
  // Returns whether nothing before `value` is in the order of tokens, so that it must be put into it.
  bool isRoot(mlir::Value value) const;
  // Returns why tokens cannot be reordered, for a person; empty if they can.
  const std::string &misfit() const { return problem; }

private:
  void mark(mlir::Value value, int64_t dim);
  void run();
  void visit(mlir::Operation *op);
  void visitReturn(mlir::Operation *op);
  void visitRepeat(graph::RepeatOp op);
  void visitRule(mlir::Operation *op);
  void fail(mlir::Operation *op, llvm::StringRef why);

  llvm::MapVector<mlir::Value, int64_t> dims;
  llvm::SmallVector<mlir::Value> worklist;
  std::string problem;
};

} // namespace llmc::train

#endif // LLMC_PASSES_TRAIN_ORDERTOKENS_TOKENDIMS_H
