// Evaluates some elements of a launch's results by the reference meaning of its body. Tested by
// test/verify/kernels/ShapesTest.cpp.
#ifndef LLMC_LIB_VERIFY_KERNELS_SAMPLE_H
#define LLMC_LIB_VERIFY_KERNELS_SAMPLE_H

#include "dialects/graph/Graph.h"
#include "lib/verify/kernels/Region.h"
#include "mlir/IR/Block.h"

#include <memory>

namespace llmc::verify {

// Restricts the body of a launch to what chosen elements of its results need: factors that may be
// sharded (dialects/graph/ShardingRule.h) keep the chosen indices, reductions their full length.
// Attention is restricted to rows for o and dq, and to keys for dk and dv.
class Sample {
public:
  // Takes one region for each value that `body` yields. A region may grow, where indices of
  // several results or of the factors of a dim are needed together. `terms`, if not 0, is the
  // number of terms of a longer sum that are evaluated: the others must be 0.
  Sample(mlir::Block &body, llvm::ArrayRef<Region> results, int64_t terms = 0);

  // Returns the region of argument `i` that evaluate() takes; empty if nothing of it is read.
  const Region &argument(unsigned i) const { return arguments[i]; }
  const Region &result(unsigned i) const { return results[i]; }
  // Estimates the cost of evaluate().
  double flops() const;

  // Returns the elements of result(i), given those of argument(i), with bounds on the error of
  // any sound implementation in floats. Thread-safe.
  std::vector<graph::BoundedTensor> evaluate(std::vector<graph::BoundedTensor> arguments) const;

private:
  // Represents one op on a part of its operands: a clone with smaller types.
  struct Piece {
    mlir::Operation *op;
    std::vector<Region> operands, results;
    std::vector<bool> keeps; // results that are taken from it; the others stay empty
  };
  struct Step {
    mlir::Operation *op;
    std::vector<Region> results;
    std::vector<Piece> pieces;
  };

  void plan(mlir::Operation *op);
  void planByRule(graph::GraphOpInterface op, Step &step);
  template <typename Op> void planAttention(Op op, Step &step);
  Piece &addPiece(Step &step, std::vector<Region> operands, std::vector<Region> results);
  void demand(mlir::Value value, const Region &region);
  void runStep(const Step &step, llvm::DenseMap<mlir::Value, graph::BoundedTensor> &values) const;

  mlir::Block *body;
  int64_t terms;
  std::unique_ptr<mlir::Block> clones;
  llvm::DenseMap<mlir::Value, Region> demanded, made; // made: the region that is computed
  std::vector<Step> steps;
  std::vector<Region> arguments, results;
};

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_KERNELS_SAMPLE_H
