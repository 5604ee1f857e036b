// Reverse mode over blocks of graph ops: from the cotangents of some values of a
// block to those of its arguments, repeats included.
#ifndef LLMC_PASSES_TRAIN_DIFFERENTIATE_REVERSEMODE_H
#define LLMC_PASSES_TRAIN_DIFFERENTIATE_REVERSEMODE_H

#include "dialects/graph/GraphAttrs.h"
#include "passes/2-train/Differentiate/Activity.h"
#include "llvm/ADT/MapVector.h"

namespace llmc::train {

// What is known about the values of one forward block.
struct BlockGradients {
  ValueSet active;
  // value -> its cotangent so far.
  llvm::DenseMap<mlir::Value, mlir::Value> cotangents;
  // argument -> the accumulator that its cotangent is to be added to.
  llvm::MapVector<mlir::Value, mlir::Value> accumulators;
  // argument -> the accumulator with the cotangent added.
  llvm::DenseMap<mlir::Value, mlir::Value> accumulated;
};

class ReverseMode {
public:
  // Counts for the pass's statistics.
  int64_t numKept = 0, numRedone = 0;

  // Builds the gradient of the forward ops of `forward` (those that were there
  // before the call and carry no `graph.backward`) at the builder's insertion
  // point, which may be in another block: the new ops then read values of
  // `forward`, and the caller moves what they read to where they are.
  // On success, every argument with an accumulator and a cotangent is in
  // `gradients.accumulated`. Fails after one diagnostic per op without gradient.
  mlir::LogicalResult differentiate(mlir::OpBuilder &builder, mlir::Block &forward,
                                    BlockGradients &gradients);

  // Gives `backward`, the block that the gradient of `forward` was built in, its
  // own copies of the reshapes and constants of `forward` that it reads.
  void redoCheapValues(mlir::Block &forward, mlir::Block &backward);

private:
  mlir::LogicalResult differentiateOp(mlir::OpBuilder &builder, mlir::Operation *op,
                                      BlockGradients &gradients);
  mlir::LogicalResult differentiateRepeat(mlir::OpBuilder &builder, graph::RepeatOp op,
                                          BlockGradients &gradients);
  friend class RepeatGradient;
};

// The sum of two cotangents, either of which may be null.
mlir::Value addCotangents(mlir::OpBuilder &builder, mlir::Value a, mlir::Value b);

// accumulator + cotangent, in the accumulator's element type.
mlir::Value accumulate(mlir::OpBuilder &builder, mlir::Value accumulator, mlir::Value cotangent);

// Erases the ops of `block` that nothing reads, last first.
void eraseDeadOps(mlir::Block &block);

// Marks everything that is built through a builder as backward.
class MarkBackward : public mlir::OpBuilder::Listener {
  void notifyOperationInserted(mlir::Operation *op, mlir::OpBuilder::InsertPoint) override {
    op->setAttr(graph::kBackward, mlir::UnitAttr::get(op->getContext()));
  }
};

} // namespace llmc::train

#endif // LLMC_PASSES_TRAIN_DIFFERENTIATE_REVERSEMODE_H
