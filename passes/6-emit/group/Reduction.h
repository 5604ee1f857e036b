// Reductions of a group: sums and maxima over its reduced loops, in an order that
// depends on the shape alone. Sums of float32 are carried in float64.
#ifndef LLMC_PASSES_EMIT_GROUP_REDUCTION_H
#define LLMC_PASSES_EMIT_GROUP_REDUCTION_H

#include "passes/6-emit/group/Group.h"

namespace llmc::emit {

// In what sums of `element` are carried.
Type wideType(Type element);
// The value of `element` that changes no sum, or no maximum.
Value identity(Kernel &k, bool isMax, Type element, unsigned width);

// Works at one row: all kept loops are entered. If the last loop in memory is a
// kept one (a reduction of leading dims), a "row" is a vector of columns, and
// every value of a row such a vector.
class Reducer {
public:
  Reducer(Group &group, Point &row, unsigned outerLoop, Value outerSize)
      : group(group), row(row), outerLoop(outerLoop), outerSize(outerSize) {}

  Group &group;
  Point &row;
  // A reduced loop whose size comes from the launch, if there is one.
  unsigned outerLoop;
  Value outerSize;

  using Terms = std::function<llvm::SmallVector<Value>(Point &)>;
  // Sums, or the maximum, of each of `count` terms over the reduced loops.
  llvm::SmallVector<Value> sums(unsigned count, const Terms &terms);
  Value sum(const std::function<Value(Point &)> &term);
  Value sumOfPositive(const std::function<Value(Point &)> &term);
  Value maximum(const std::function<Value(Point &)> &term);
  Value integers(bool isMax, Type element, const std::function<Value(Point &)> &term);
  // Numbers of the loops that heroes reduce.
  llvm::SmallVector<unsigned> reducedLoops() const;
  // Runs `body` at vectors of points of the reduced loops.
  void forEach(const std::function<void(Point &)> &body);
  // A place on the stack for an `element` at each point of the row, to be written in one walk
  // and read in later ones, or null if it would be too large.
  Value rowArray(Type element);
  // How often the row has been walked.
  unsigned walks = 0;
  // Where so much is computed from an element that reading the next row may run ahead
  // meanwhile: in the walk after the first, if that one waits for memory, or in each.
  enum class Ahead { Never, SecondWalk, EveryWalk } ahead = Ahead::Never;
  // The product of the reduced sizes of operand 0.
  static int64_t count(mlir::Operation *op);

  struct Accumulator {
    bool isMax;
    Type element; // of the terms
    // Lanes of one step that are added up as they are; only sums are carried wider. Two lose
    // no more than the terms' own rounding did, more only where terms have one sign.
    unsigned fold = 1;
  };
  // What a sum or maximum so far becomes with one more term, each a scalar or vector.
  Value accumulate(const Accumulator &kind, Value carried, Value term);

private:
  Accumulator sumOfFolded(unsigned lanes); // one by one where lanes are not of one sum
  llvm::SmallVector<Value> reduce(llvm::ArrayRef<Accumulator> kinds, const Terms &terms);
  llvm::SmallVector<Value> walk(llvm::ArrayRef<unsigned> loops, Point &point,
                                mlir::ValueRange carried, llvm::ArrayRef<Accumulator> kinds,
                                const Terms &terms);
  llvm::SmallVector<Value> walkVectors(unsigned loop, Point &point, mlir::ValueRange carried,
                                       llvm::ArrayRef<Accumulator> kinds, const Terms &terms);
  Value finish(const Accumulator &kind, Value vector, Value rest);
  std::pair<Value, std::optional<int64_t>> bounds(unsigned loop);
  void enterWalk();
  // Of the vectors along the last loop.
  unsigned termLanes();
  bool overColumns() const { return !group.loops.back().reduced; }
};

} // namespace llmc::emit

#endif // LLMC_PASSES_EMIT_GROUP_REDUCTION_H
