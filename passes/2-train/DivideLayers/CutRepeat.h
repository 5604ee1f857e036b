// Cuts a repeat of @forward into several that run one after the other. Test:
// test/passes/2-train/divide-layers.mlir.
#ifndef LLMC_PASSES_TRAIN_DIVIDELAYERS_CUTREPEAT_H
#define LLMC_PASSES_TRAIN_DIVIDELAYERS_CUTREPEAT_H

#include "dialects/graph/Graph.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <set>
#include <vector>

namespace llmc::stages {

// Represents a point of a body at which a layer ends.
struct BodyCut {
  mlir::Operation *before = nullptr; // the first op of the next layer
  // Holds what later ops need of earlier ones, by the carried value whose place each takes.
  llvm::SmallVector<mlir::Value> carried;
};

// Represents a repeat as layers: `count` groups, each of the layers of the body.
struct RepeatLayers {
  graph::RepeatOp op;
  int64_t inBody = 1;
  // Holds the cut before layer i of the body (from 1); null where the layers exchange more than the
  // values that the repeat carries.
  std::vector<std::optional<BodyCut>> cuts;

  explicit RepeatLayers(graph::RepeatOp op);
  int64_t count() const { return inBody * int64_t(graph::RepeatOp(op).getCount()); }
  // Returns whether a stage may begin with a layer, counted from the first of the repeat.
  bool mayBegin(int64_t layer) const { return layer % inBody == 0 || cuts[layer % inBody]; }
  // Returns a stacked state of the repeat that others read too, so that it cannot be cut; null if there
  // is none.
  graph::StateOp sharedState() const;
  // Returns the FLOPs of layer i of the body, for one run of it.
  std::vector<double> flops() const;
};

// Cuts the repeat so that no part has layers before and behind one of `bounds` (from 1 to count - 1)
// that lies inside of a body, nor before and behind one of `hard`. Each part is a repeat with states
// of its own in place of the parts of stacked ones, and erases these. Returns the number of parts.
int64_t cutRepeat(RepeatLayers layers, const std::set<int64_t> &bounds, const std::set<int64_t> &hard);
// Returns whether cutRepeat() would make several parts.
bool needsCut(const RepeatLayers &layers, const std::set<int64_t> &bounds, const std::set<int64_t> &hard);

} // namespace llmc::stages

#endif // LLMC_PASSES_TRAIN_DIVIDELAYERS_CUTREPEAT_H
