// Declares the steps of SinkReductions and what they ask of ops. Functions that begin with get, is,
// ends, makes, same, uses, collect or match only read the IR; all others change it in place. Tests:
// test/passes/4-partition/sink-reductions.mlir.
#ifndef LLMC_PASSES_PARTITION_SINKREDUCTIONS_SINKREDUCTIONS_H
#define LLMC_PASSES_PARTITION_SINKREDUCTIONS_SINKREDUCTIONS_H

#include "dialects/parallel/Annotations.h"

namespace llmc {

// Returns the reshard that defines `value` if it sums over axes and has one use; else null. It may
// also cut the value, over axes of the sum or others.
parallel::ReshardOp getSum(mlir::Value value);
// Returns the same if it only sums.
parallel::ReshardOp getPureSum(mlir::Value value);
// Returns the axes that a reshard reduces.
parallel::Axes getReducedAxes(parallel::ReshardOp op);

// Copies the marks of phase 3: stage, direction and origin, where `from` has them.
void copyMarks(mlir::Operation *from, mlir::Operation *to);
// Returns whether two ops run in one stage and direction.
bool sameMarks(mlir::Operation *a, mlir::Operation *b);
// Returns whether all results of an op that are partial are sums (not maxima).
bool makesSums(mlir::Operation *op);
// Returns whether an op cuts a dimension over `axis`, or has operands or results unreduced over it.
bool usesAxis(mlir::Operation *op, mlir::StringAttr axis);

// Returns whether `add` adds tensors of its own type, or broadcasts one of them (a bias). False for
// null.
bool isTerm(graph::AddOp add);
// Returns whether `add` is such an add, and not itself inside a larger sum.
bool isRootOfSum(graph::AddOp add);
// Represents a tree of such adds of one type, and the uses that are its leaves.
struct SumOfTerms {
  llvm::SmallVector<graph::AddOp> adds;
  llvm::SmallVector<mlir::OpOperand *> terms;
};
SumOfTerms collectTerms(graph::AddOp root);
// Rewrites a + R(x) + b + R(y) to a + b + R(x + y); what is broadcast is added last. Returns false
// and changes nothing unless `root` is a root with two such terms; else erases it.
bool mergeSum(graph::AddOp root);

// Represents acc + R(g) + R(h) + ... as a tree of adds that broadcast nothing, where all R are pure
// sums from one sharding to a fully reduced one.
struct PartialSum {
  llvm::SmallVector<graph::AddOp> adds;
  mlir::Value acc;
  llvm::SmallVector<parallel::ReshardOp> terms;

  // Returns the sum that `root` is; fails, without a diagnostic, if it is none.
  static mlir::FailureOr<PartialSum> match(mlir::Value root);
  // Makes the adds work on partial sums over `axes`, and erases the reshards. The caller makes
  // `acc` unreduced.
  void makeUnreduced(llvm::ArrayRef<mlir::StringAttr> axes);
};

// Makes a definition, or what a use requires, unreduced over `axes`. It must be fully reduced, or
// unreduced over just these already.
void addUnreduced(mlir::Value value, llvm::ArrayRef<mlir::StringAttr> axes);
void addUnreduced(mlir::OpOperand &use, llvm::ArrayRef<mlir::StringAttr> axes);

// Moves behind the layers the reductions of each carried value that starts with zeros or a partial
// sum, and to which the layers only add partial sums. Returns whether there was one.
bool sinkCarriedReductions(graph::RepeatOp op);

// Holds the names of the accumulators among a module's states, so that none is looked up among all.
using Accumulators = llvm::DenseSet<mlir::StringAttr>;
Accumulators collectAccumulators(mlir::ModuleOp module);

// Returns whether `acc` is an accumulator as it enters @micro, and `sum` what @micro returns in it.
// `accumulators` are those of the module.
bool endsInAccumulator(mlir::Value acc, mlir::Value sum, const Accumulators &accumulators);

// Moves the reductions of gradients behind the accumulators, and into @update: once per step
// instead of once per micro-batch. Returns how many sums it changed.
unsigned sinkAccumulators(mlir::ModuleOp module, const Accumulators &accumulators);

} // namespace llmc

#endif // LLMC_PASSES_PARTITION_SINKREDUCTIONS_SINKREDUCTIONS_H
