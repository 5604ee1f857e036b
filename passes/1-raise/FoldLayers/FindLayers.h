// Where equal layers stand in a sequence of ops, and how they hang together.
#ifndef LLMC_PASSES_RAISE_FOLDLAYERS_FINDLAYERS_H
#define LLMC_PASSES_RAISE_FOLDLAYERS_FINDLAYERS_H

#include "dialects/graph/Graph.h"

namespace llmc::raise {

using Ops = llvm::ArrayRef<mlir::Operation *>;

// `count` groups of `period` ops from `start` on.
struct Layers {
  int64_t start = 0, period = 0, count = 0;

  // Result `result` of op `op` of each group goes into the next one; the first
  // one gets `initial`.
  struct Carried {
    int64_t op;
    unsigned result;
    mlir::Value initial;
    bool operator==(const Carried &) const = default;
  };
  llvm::SmallVector<Carried, 1> carried;
  // One parameter per group.
  llvm::SmallVector<llvm::SmallVector<mlir::Value>> stacked;
  // One input of the model or one small constant per group.
  llvm::SmallVector<llvm::SmallVector<mlir::Value>> gathered;
  llvm::SmallVector<mlir::Value> captured;

  // Result `result` of op `op` is used behind the layers, of each group by itself.
  struct Exported {
    int64_t op;
    unsigned result;
  };
  llvm::SmallVector<Exported> exported;

  // Where an operand of the body comes from. `index` counts in the list of its
  // kind; for Internal it is an op of the group, for Cloned unused.
  struct Operand {
    enum Kind { Internal, Carried, Stacked, Gathered, Captured, Cloned } kind;
    int64_t index = 0;
    unsigned result = 0;
  };
  // Per op of a group, per operand.
  llvm::SmallVector<llvm::SmallVector<Operand, 3>> operands;

  int64_t end() const { return start + period * count; }
};

// The best fold of `ops` (one block, in order, without constants and terminator).
std::optional<Layers> findLayers(Ops ops);

// One layer around an attention: the longest stretch of the residual stream
// (sums of which one side stands behind the other) that holds no other.
std::optional<Layers> findSingleLayer(Ops ops);

} // namespace llmc::raise

#endif // LLMC_PASSES_RAISE_FOLDLAYERS_FINDLAYERS_H
