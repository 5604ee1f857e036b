// Emits the reductions of a group: sums and maxima over its reduced loops, in an order that
// depends on the shape alone. Sums of float32 are carried in float64. Its cases are in
// test/passes/6-emit/ReductionCases.cpp.
#ifndef LLMC_PASSES_EMIT_GROUP_REDUCTION_H
#define LLMC_PASSES_EMIT_GROUP_REDUCTION_H

#include "passes/6-emit/group/FusedGroup.h"

namespace llmc::emit {

// Returns the type in which sums of `element` are carried.
Type wideType(Type element);
// Returns the constant of `element` that changes no sum, or no maximum.
Value identity(Kernel &k, bool isMax, Type element, unsigned width);

// Emits the reductions of one row, where all kept loops are entered, at the insertion point of the
// group's kernel; the values returned are ops emitted there. If the last loop in memory is a kept
// one (a reduction of leading dims), a "row" is a vector of columns, and every value of a row is
// such a vector. Keeps references to `group` and `row`, which must outlive it.
class Reducer {
public:
  Reducer(FusedGroup &group, Point &row, unsigned outerLoop, Value outerSize)
      : group(group), row(row), outerLoop(outerLoop), outerSize(outerSize) {}

  FusedGroup &group;
  Point &row;
  // Identifies the reduced loop whose size comes from the launch, if `outerSize` is not null.
  unsigned outerLoop;
  Value outerSize;

  using Terms = std::function<llvm::SmallVector<Value>(Point &)>;
  // Returns the sum, or the maximum, of each of `count` terms over the reduced loops.
  // sumOfPositive() adds more lanes before it widens them, since its terms cannot cancel.
  llvm::SmallVector<Value> sums(unsigned count, const Terms &terms);
  Value sum(const std::function<Value(Point &)> &term);
  Value sumOfPositive(const std::function<Value(Point &)> &term);
  Value maximum(const std::function<Value(Point &)> &term);
  Value integers(bool isMax, Type element, const std::function<Value(Point &)> &term);
  // Returns the numbers of the loops that reduction roots reduce.
  llvm::SmallVector<unsigned> reducedLoops() const;
  // Calls `body` at vectors of points of the reduced loops.
  void forEach(const std::function<void(Point &)> &body);
  // Allocates a stack array with an `element` for each point of the row, to be written in one
  // traversal and read in later ones; returns null if it would be too large or the row is not
  // one reduced loop of known size.
  Value rowArray(Type element);
  // Counts the traversals of the row so far.
  unsigned walks = 0;
  // Selects the traversals that prefetch the next row, where computing an element takes long
  // enough: the second, if the first waits for memory, or each.
  enum class Ahead { Never, SecondWalk, EveryWalk } ahead = Ahead::Never;
  // Returns the product of the reduced sizes of operand 0.
  static int64_t count(mlir::Operation *op);

  struct Accumulator {
    bool isMax;
    Type element; // of the terms in registers
    // Counts the lanes of one step that are added in the terms' own type, before the sum is
    // carried wider. Two lose no more than the rounding of the terms did; more are used only
    // where all terms have one sign.
    unsigned fold = 1;
  };
  // Returns `carried`, a sum or maximum so far, with one more `term`; both are scalars or
  // vectors.
  Value accumulate(const Accumulator &kind, Value carried, Value term);

private:
  Accumulator sumOfFolded(unsigned lanes); // fold 1 where lanes belong to different sums
  llvm::SmallVector<Value> reduce(llvm::ArrayRef<Accumulator> kinds, const Terms &terms);
  llvm::SmallVector<Value> walk(llvm::ArrayRef<unsigned> loops, Point &point,
                                mlir::ValueRange carried, llvm::ArrayRef<Accumulator> kinds,
                                const Terms &terms);
  llvm::SmallVector<Value> walkVectors(unsigned loop, Point &point, mlir::ValueRange carried,
                                       llvm::ArrayRef<Accumulator> kinds, const Terms &terms);
  Value finish(const Accumulator &kind, Value vector, Value rest);
  std::pair<Value, std::optional<int64_t>> bounds(unsigned loop);
  void enterWalk();
  // Returns the width of the vectors along the last loop.
  unsigned termLanes();
  bool overColumns() const { return !group.loops.back().reduced; }
};

} // namespace llmc::emit

#endif // LLMC_PASSES_EMIT_GROUP_REDUCTION_H
