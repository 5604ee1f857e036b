// Differentiates blocks of graph ops in reverse mode, repeats included: from the cotangents of some
// values of a block to those of its arguments (test/passes/2-train/differentiate.mlir).
#ifndef LLMC_PASSES_TRAIN_DIFFERENTIATE_REVERSEMODE_H
#define LLMC_PASSES_TRAIN_DIFFERENTIATE_REVERSEMODE_H

#include "dialects/graph/GraphAttrs.h"
#include "passes/2-train/Activity.h"
#include "llvm/ADT/MapVector.h"

namespace llmc::train {

// Holds the gradients of the values of one forward block.
struct BlockGradients {
  ValueSet active;
  // Maps a value to its cotangent so far.
  llvm::DenseMap<mlir::Value, mlir::Value> cotangents;
  // Maps an argument to the accumulator to which its cotangent is to be added.
  llvm::MapVector<mlir::Value, mlir::Value> accumulators;
  // Maps an argument to the accumulator with the cotangent added.
  llvm::DenseMap<mlir::Value, mlir::Value> accumulated;
};

class ReverseMode {
public:
  // Counts the pass's statistics: residuals stacked, values rematerialized.
  int64_t numKept = 0, numRematerialized = 0;

  // Builds the gradient of the forward ops of `forward` (those that exist before the call and carry
  // no `graph.backward`) at the builder's insertion point. That may be in another block: the new
  // ops then read values of `forward`, and the caller makes these available there. On success,
  // `gradients.accumulated` has every argument with an accumulator and a cotangent. Fails after one
  // diagnostic per op without a gradient.
  mlir::LogicalResult differentiate(mlir::OpBuilder &builder, mlir::Block &forward,
                                    BlockGradients &gradients);

  // Gives `backward`, the block in which the gradient of `forward` was built, its own copies of the
  // reshapes and constants of `forward` that it reads.
  void rematerializeCheapValues(mlir::Block &forward, mlir::Block &backward);

private:
  mlir::LogicalResult differentiateOp(mlir::OpBuilder &builder, mlir::Operation *op,
                                      BlockGradients &gradients);
  mlir::LogicalResult differentiateRepeat(mlir::OpBuilder &builder, graph::RepeatOp op,
                                          BlockGradients &gradients);
  friend class RepeatGradient;
};

// Builds the sum of two cotangents, of which either may be null, in the wider of their types; a null
// sum if both are null.
mlir::Value addCotangents(mlir::OpBuilder &builder, mlir::Value a, mlir::Value b);

// Adds a cotangent to that of a value. A parameter that layers use has theirs in its accumulator's type: what comes to
// it is computed in that type too, where nothing else reads it, `others` (cotangents of the same op) among them, so
// that nothing on the way to the accumulator is rounded to a narrower one.
void addTo(mlir::OpBuilder &builder, mlir::Value value, mlir::Value cotangent, BlockGradients &gradients,
           llvm::ArrayRef<mlir::Value> others = {});

// Builds accumulator + cotangent, in the accumulator's element type, to which the ops that make the
// cotangent are changed where nothing else reads what they make. Types of `pinned` values stay.
mlir::Value accumulate(mlir::OpBuilder &builder, mlir::Value accumulator, mlir::Value cotangent,
                       const ValueSet &pinned = {});

// Marks every op that is built through a builder as backward.
class MarkBackward : public mlir::OpBuilder::Listener {
  void notifyOperationInserted(mlir::Operation *op, mlir::OpBuilder::InsertPoint) override {
    op->setAttr(graph::kBackward, mlir::UnitAttr::get(op->getContext()));
  }
};

} // namespace llmc::train

#endif // LLMC_PASSES_TRAIN_DIFFERENTIATE_REVERSEMODE_H
