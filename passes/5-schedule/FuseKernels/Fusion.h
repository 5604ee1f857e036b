// Finds and builds the groups of ops that one kernel computes together. Test:
// test/passes/5-schedule/fuse-kernels.mlir.
#ifndef LLMC_PASSES_SCHEDULE_FUSEKERNELS_FUSION_H
#define LLMC_PASSES_SCHEDULE_FUSEKERNELS_FUSION_H

#include "dialects/plan/Plan.h"
#include "llvm/ADT/SetVector.h"

namespace llmc::fusion {

// Describes what an op computes in the iteration space of its group.
enum class FusionRole {
  Element, // a value at each point
  Row,     // a value at each point of the dims that are not reduced
  ReductionRoot,    // reduces the space's reduced dims
  Column,  // sums all dims but the last
};

struct FusionGroup {
  llvm::SmallVector<int64_t> shape;  // of the iteration space
  llvm::SmallVector<bool> reduced;   // dims that reduction roots reduce
  llvm::SetVector<mlir::Operation *> members;
  llvm::DenseMap<mlir::Operation *, FusionRole> roles;
  int64_t first = 0, last = 0; // positions of its members in the block
  // Allows all dims but the last to be replaced by any two of the same product.
  bool collapsible = true;

  bool has(FusionRole role) const;
  bool reduces() const;
  bool contains(mlir::Value value) const {
    return value.getDefiningOp() && members.contains(value.getDefiningOp());
  }
};

// Returns whether each reader recomputes the op: splat constants, indices and broadcasts, and
// slices that are no views.
bool isRecomputedByReaders(mlir::Operation *op);
// Returns what casts that readers recompute are made of: what a group really reads.
mlir::Value behindCasts(mlir::Value value);
// Returns whether the op is a reshape that only adds or drops dims of size 1.
bool isUnitReshape(mlir::Operation *op);
// Returns whether the op reduces all dims but the last, within one element type.
bool isColumnSum(mlir::Operation *op);
// Returns whether operand `i` has one element for each row of the op's space.
bool isRowOperand(mlir::Operation *op, unsigned i);

// Returns disjoint groups of a block's ops, each of two ops or more or with a column sum. A
// reduction in `whole` is no column sum. Changes no IR.
std::vector<FusionGroup> findGroups(mlir::Block &block,
                              const llvm::DenseSet<mlir::Operation *> &whole);

// Replaces each group by a plan.group, and sorts the block. A column sum becomes sums of a few rows
// in its group, and one reduction of those, which is added to `whole`.
void buildGroups(mlir::Block &block, llvm::MutableArrayRef<FusionGroup> groups,
                 llvm::DenseSet<mlir::Operation *> &whole);

// Expands reductions before grouping: gradients of scales become products and column sums; a
// reduction of all dims becomes one of each row, and one of those, which is added to `whole`.
void expandReductions(mlir::Block &block, llvm::DenseSet<mlir::Operation *> &whole);

} // namespace llmc::fusion

#endif // LLMC_PASSES_SCHEDULE_FUSEKERNELS_FUSION_H
