// Builds the gradient of one graph.repeat: a second repeat in reverse order
// (test/passes/2-train/GradientTest.cpp).
#ifndef LLMC_PASSES_TRAIN_DIFFERENTIATE_REPEATGRADIENT_H
#define LLMC_PASSES_TRAIN_DIFFERENTIATE_REPEATGRADIENT_H

#include "passes/2-train/Differentiate/ReverseMode.h"

namespace llmc::train {

// Builds, for the forward repeat
//
//   %h', %s' = repeat N carried(%h) stacked(%w) captured(%c)
//
// the backward repeat
//
//   %dh, %dc, %acc', %dw = repeat N reverse
//       carried(%dh', zeros) stacked(%ds', %acc, residuals, %w) captured(%c)
//
// where %c and %w are there if the gradient reads them. A stacked operand that has an accumulator
// gives %acc', one that has none gives %dw. Residuals are values of the forward body that the
// gradient reads: the forward repeat is built anew to stack them.
class RepeatGradient {
public:
  RepeatGradient(ReverseMode &mode, graph::RepeatOp forward, BlockGradients &outer)
      : mode(mode), forward(forward), outer(outer), block(region.emplaceBlock()) {}

  // Builds the backward repeat at the builder's insertion point, adds to the outer cotangents, and
  // replaces the forward repeat if it has to stack residuals. Fails if an op of the body has no
  // gradient.
  mlir::LogicalResult build(mlir::OpBuilder &builder);

private:
  // Describes a carried value of the backward repeat: the cotangent of `of`, a carried or captured
  // argument of the forward body.
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
  mlir::Region region; // the backward body until the op exists
  mlir::Block &block;
  llvm::SmallVector<Carried> carried;
  llvm::SmallVector<mlir::Value> stacked, captured; // operands, in argument order
  // Lists for each stacked yield the index of the forward op's stacked operand.
  llvm::SmallVector<unsigned> gradientOf;
};

} // namespace llmc::train

#endif // LLMC_PASSES_TRAIN_DIFFERENTIATE_REPEATGRADIENT_H
