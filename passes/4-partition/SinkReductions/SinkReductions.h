#ifndef LLMC_PASSES_PARTITION_SINKREDUCTIONS_SINKREDUCTIONS_H
#define LLMC_PASSES_PARTITION_SINKREDUCTIONS_SINKREDUCTIONS_H

#include "dialects/parallel/Annotations.h"

namespace llmc {

// `value`, if it is a reshard with one user that does nothing but sum over axes.
parallel::ReshardOp getPureSum(mlir::Value value);
// The axes that a reshard reduces.
parallel::Axes getReducedAxes(parallel::ReshardOp op);

// Do two ops run in one stage and direction?
bool sameMarks(mlir::Operation *a, mlir::Operation *b);

// The terms of a sum of tensors of one type and of biases that are broadcast to it.
void collectTerms(graph::AddOp root, llvm::SmallVectorImpl<mlir::Value> &terms);
// The sum that `term` is a term of; null if it is none's alone.
graph::AddOp getSumOf(mlir::Value term);

// A pure sum that costs nothing more if it is moved behind all of its users: they and
// their users are linear, up to accumulators and to sums that have another
// partial term over the same axes, or can have.
bool movesForFree(parallel::ReshardOp op);

// acc + R(g) + R(h) + ... as a tree of adds that broadcast nothing, in which R
// are pure sums from one sharding to a reduced one.
struct PartialSum {
  llvm::SmallVector<graph::AddOp> adds;
  mlir::Value acc;
  llvm::SmallVector<parallel::ReshardOp> terms;

  // Fails if `root` is no such sum.
  static mlir::FailureOr<PartialSum> match(mlir::Value root);
  // Lets the adds work on partial sums. The sharding of `acc` is the caller's affair.
  void makeUnreduced(llvm::ArrayRef<mlir::StringAttr> axes);
};

// Marks a definition, or what a use requires, as unreduced over `axes` as well.
void addUnreduced(mlir::Value value, llvm::ArrayRef<mlir::StringAttr> axes);
void addUnreduced(mlir::OpOperand &use, llvm::ArrayRef<mlir::StringAttr> axes);

// A carried value that starts with zeros and collects partial sums layer by
// layer is reduced behind the layers. Returns true if there was one.
bool sinkCarried(graph::RepeatOp op);

// True of an accumulator as it enters the add that it is for.
bool isAccumulator(mlir::Value value);

// Moves the reductions of gradients behind the accumulators, and into @update.
// Returns how many.
unsigned sinkAccumulators(mlir::ModuleOp module);

} // namespace llmc

#endif // LLMC_PASSES_PARTITION_SINKREDUCTIONS_SINKREDUCTIONS_H
