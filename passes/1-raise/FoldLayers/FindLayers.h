// Finds equal layers in a sequence of ops, and the values that connect them
// (test/passes/1-raise/fold-layers.mlir).
#ifndef LLMC_PASSES_RAISE_FOLDLAYERS_FINDLAYERS_H
#define LLMC_PASSES_RAISE_FOLDLAYERS_FINDLAYERS_H

#include "dialects/graph/Graph.h"

namespace llmc::raise {

using Ops = llvm::ArrayRef<mlir::Operation *>;

// Describes a fold: `count` groups of `period` ops, from `start` on.
struct Layers {
  int64_t start = 0, period = 0, count = 0;

  // Identifies result `result` of op `op` of each group, which the next group takes; the first
  // group takes `initial`.
  struct Carried {
    int64_t op;
    unsigned result;
    mlir::Value initial;
    bool operator==(const Carried &) const = default;
  };
  llvm::SmallVector<Carried, 1> carried;
  // Lists one parameter per group.
  llvm::SmallVector<llvm::SmallVector<mlir::Value>> stacked;
  // Lists one input of the model, or one small constant, per group.
  llvm::SmallVector<llvm::SmallVector<mlir::Value>> gathered;
  llvm::SmallVector<mlir::Value> captured;

  // Identifies result `result` of op `op`, which is used after the layers, of each group by itself.
  struct Exported {
    int64_t op;
    unsigned result;
  };
  llvm::SmallVector<Exported> exported;

  // Describes where an operand of the body comes from. `index` counts in the list of its kind (for
  // Cloned in `captured`); for Internal it is an op of the group.
  struct Operand {
    enum Kind { Internal, Carried, Stacked, Gathered, Captured, Cloned } kind;
    int64_t index = 0;
    unsigned result = 0;
  };
  // Lists the operands of each op of a group.
  llvm::SmallVector<llvm::SmallVector<Operand, 3>> operands;

  int64_t end() const { return start + period * count; }
};

// Returns the best fold of `ops` (one block, in order, without constants and terminator); nullopt
// if nothing folds.
std::optional<Layers> findLayers(Ops ops);

// Returns one layer around a single attention: the longest stretch of the residual stream (sums of
// which one side depends on the other) that holds no second one; nullopt if there is none.
std::optional<Layers> findSingleLayer(Ops ops);

} // namespace llmc::raise

#endif // LLMC_PASSES_RAISE_FOLDLAYERS_FINDLAYERS_H
