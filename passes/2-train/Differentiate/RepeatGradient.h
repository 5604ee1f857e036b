// The gradient of one graph.repeat: a second repeat that runs the other way.
#ifndef LLMC_PASSES_TRAIN_DIFFERENTIATE_REPEATGRADIENT_H
#define LLMC_PASSES_TRAIN_DIFFERENTIATE_REPEATGRADIENT_H

#include "passes/2-train/Differentiate/ReverseMode.h"

namespace llmc::train {

// With the forward repeat
//   %h', %s' = repeat N carried(%h) stacked(%w) captured(%c)
// the backward repeat is
//   %dh, %dc, %acc', %dw = repeat N reverse
//       carried(%dh', zeros) stacked(%ds', %acc, residuals, %w) captured(%c)
// where %c and %w are there if the gradient reads them, a stacked operand that
// has an accumulator gives %acc' and another one %dw. Residuals are values of
// the forward body that the gradient reads: the forward repeat, built anew,
// stacks them.
class RepeatGradient {
public:
  RepeatGradient(ReverseMode &mode, graph::RepeatOp forward, BlockGradients &outer)
      : mode(mode), forward(forward), outer(outer), block(region.emplaceBlock()) {}

  // Builds it at the builder's insertion point and adds to the outer cotangents.
  mlir::LogicalResult build(mlir::OpBuilder &builder);

private:
  // A carried value of the backward repeat: the cotangent of a carried or
  // captured argument of the forward body.
  struct Carried {
    mlir::BlockArgument of, argument;
    mlir::Value start;
  };

  // Adds to the cotangent of a value of the forward body.
  void seed(mlir::Value of, mlir::Value cotangent);
  mlir::BlockArgument addStacked(mlir::Value operand, mlir::Type type, mlir::Location loc);
  void addCarriedCotangents(mlir::OpBuilder &builder, const ValueSet &live);
  void addStackedArguments(const ValueSet &live);
  void yieldCotangents(mlir::OpBuilder &builder);
  void readForwardValues();
  llvm::SmallVector<mlir::Value> keepResiduals(llvm::ArrayRef<mlir::Value> residuals);
  void finish(mlir::OpBuilder &builder);

  ReverseMode &mode;
  graph::RepeatOp forward;
  BlockGradients &outer;
  BlockGradients inner;
  mlir::Region region; // the backward body until the op is there
  mlir::Block &block;
  llvm::SmallVector<Carried> carried;
  llvm::SmallVector<mlir::Value> stacked, captured; // operands, in argument order
  // For each stacked yield, the index of the forward op's stacked operand.
  llvm::SmallVector<unsigned> gradientOf;
};

} // namespace llmc::train

#endif // LLMC_PASSES_TRAIN_DIFFERENTIATE_REPEATGRADIENT_H
