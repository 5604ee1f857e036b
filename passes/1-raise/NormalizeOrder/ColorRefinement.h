// Orders values by the structure around them alone (test/passes/1-raise/normalize-order.mlir).
#ifndef LLMC_PASSES_RAISE_NORMALIZEORDER_COLORREFINEMENT_H
#define LLMC_PASSES_RAISE_NORMALIZEORDER_COLORREFINEMENT_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace llmc::raise {

// Returns whether the operands of `op` may be exchanged.
bool isCommutative(mlir::Operation *op);

// Computes a color of each value of a function by color refinement (Weisfeiler and Leman, 1968):
// round 0 is an op's kind, attributes and types; each round adds the colors of operands and users.
// The smallest neighborhood that differs tells two values apart, so equal layers order their values
// equally. Values that no round tells apart may be exchanged.
class ColorRefinement {
public:
  explicit ColorRefinement(mlir::func::FuncOp func);

  // Returns whether `a` comes before `b` as an exchangeable operand: by rank (larger first), source
  // (activations, what follows from no data or weight, parameters, constants), depth, then color.
  bool less(mlir::Value a, mlir::Value b) const;

private:
  static constexpr int kRounds = 24;

  struct Entry {
    int64_t rank = 0, source = 0, depth = 0;
    std::vector<uint64_t> rounds;
  };
  int64_t sourceOf(mlir::Value value) const;
  uint64_t colorAfterRound(mlir::Value value, int round) const;
  uint64_t fromOperands(mlir::Operation *op, int round) const;
  uint64_t fromUsers(mlir::Value value, int round) const;

  llvm::DenseMap<mlir::Value, Entry> entries;
};

} // namespace llmc::raise

#endif // LLMC_PASSES_RAISE_NORMALIZEORDER_COLORREFINEMENT_H
