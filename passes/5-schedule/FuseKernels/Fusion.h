// Which ops of a block one kernel computes together.
#ifndef LLMC_PASSES_SCHEDULE_FUSEKERNELS_FUSION_H
#define LLMC_PASSES_SCHEDULE_FUSEKERNELS_FUSION_H

#include "dialects/plan/Plan.h"
#include "llvm/ADT/SetVector.h"

namespace llmc::fusion {

// What an op is to the iteration space of its group.
enum class Role {
  Element, // a value at each point
  Row,     // a value at each point of the dims that are not reduced
  Hero,    // reduces the space's reduced dims
  Column,  // sums all dims but the last
};

struct Group {
  llvm::SmallVector<int64_t> shape;  // of the iteration space
  llvm::SmallVector<bool> reduced;   // dims that heroes reduce
  llvm::SetVector<mlir::Operation *> members;
  llvm::DenseMap<mlir::Operation *, Role> roles;
  int64_t first = 0, last = 0; // places of its members in the block
  // All dims but the last may be replaced by any two of the same product.
  bool collapsible = true;

  bool has(Role role) const;
  bool reduces() const;
  bool contains(mlir::Value value) const {
    return value.getDefiningOp() && members.contains(value.getDefiningOp());
  }
};

// Read again wherever they are wanted: constants, indices, and slices and
// broadcasts that are no views.
bool isReadInPlace(mlir::Operation *op);
// A reshape that only adds or drops dims of size 1.
bool isUnitReshape(mlir::Operation *op);
// Sums over all dims but the last.
bool isColumnSum(mlir::Operation *op);
// Operand `i` has one element for each row of the op's space.
bool isRowOperand(mlir::Operation *op, unsigned i);

// Groups of a block's ops, each of two ops or more or with a column sum. Ops in
// `whole` reduce as they stand: they are no column sums.
std::vector<Group> findGroups(mlir::Block &block,
                              const llvm::DenseSet<mlir::Operation *> &whole);

// Replaces each group by a plan.group and sorts the block. Sums that were cut in two are
// added to `whole`.
void buildGroups(mlir::Block &block, llvm::MutableArrayRef<Group> groups,
                 llvm::DenseSet<mlir::Operation *> &whole);

// Before grouping: gradients of scales as products and sums, sums of everything as
// sums of rows and a sum of these (then in `whole`).
void expandReductions(mlir::Block &block, llvm::DenseSet<mlir::Operation *> &whole);

} // namespace llmc::fusion

#endif // LLMC_PASSES_SCHEDULE_FUSEKERNELS_FUSION_H
