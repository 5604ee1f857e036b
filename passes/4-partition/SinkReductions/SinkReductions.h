#ifndef LLMC_PASSES_PARTITION_SINKREDUCTIONS_SINKREDUCTIONS_H
#define LLMC_PASSES_PARTITION_SINKREDUCTIONS_SINKREDUCTIONS_H

#include "dialects/parallel/Annotations.h"

namespace llmc {

// `value`, if it is a reshard with one user that does nothing but sum over axes.
parallel::ReshardOp getPureSum(mlir::Value value);
// The axes that a reshard reduces.
parallel::Axes getReducedAxes(parallel::ReshardOp op);

// Marks of phase 3 that say where and when an op runs, and its origin.
void copyMarks(mlir::Operation *from, mlir::Operation *to);
// Do two ops run in one stage and direction?
bool sameMarks(mlir::Operation *a, mlir::Operation *b);
// Are the partial results that an op makes of its own, if any, sums?
bool makesSums(mlir::Operation *op);
// Does an op cut a dimension over `axis`, or make or take partial results over it?
bool worksOver(mlir::Operation *op, mlir::StringAttr axis);

// An add of tensors of one type, or of one that a bias is broadcast to. May be null.
bool isTerm(graph::AddOp add);
// Is it one that is not itself inside a larger sum?
bool isRootOfSum(graph::AddOp add);
// A tree of such adds of one type, and what they add up.
struct SumOfTerms {
  llvm::SmallVector<graph::AddOp> adds;
  llvm::SmallVector<mlir::OpOperand *> terms;
};
SumOfTerms collectTerms(graph::AddOp root);
// a + R(x) + b + R(y) -> a + b + R(x + y); what is broadcast is added last. Erases `root`
// and returns true if it has at least two such terms.
bool mergeSum(graph::AddOp root);

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

// Is `acc` an accumulator as it enters the micro-batch, and `sum` what leaves it as the same?
bool endsInAccumulator(mlir::Value acc, mlir::Value sum);

// Moves the reductions of gradients behind the accumulators, and into @update.
// Returns how many.
unsigned sinkAccumulators(mlir::ModuleOp module);

} // namespace llmc

#endif // LLMC_PASSES_PARTITION_SINKREDUCTIONS_SINKREDUCTIONS_H
