// Finds which dimension of a value counts the tokens of a row. Test: test/passes/3-shard/shard-sequence.mlir.
#ifndef LLMC_PASSES_SHARD_SEQUENCEDIMS_H
#define LLMC_PASSES_SHARD_SEQUENCEDIMS_H

#include "passes/3-shard/Propagation.h"

namespace llmc {

// Follows the tokens, dimension 1 of the inputs, forward through the rules of the ops.
class SequenceDims {
public:
  // Reads the rules that `axis` has.
  explicit SequenceDims(const AxisPropagation &axis) : axis(axis) {}

  // Follows the inputs of a step, or those of an inference that have a batch.
  void followInputs(mlir::func::FuncOp func, bool infer);
  // Returns the dimension, or -1 if there is none.
  int64_t of(mlir::Value value) const;

private:
  void follow(mlir::Block &block);
  void followOp(mlir::Operation *op);
  void followRepeat(graph::RepeatOp op);

  const AxisPropagation &axis;
  llvm::DenseMap<mlir::Value, int64_t> dims;
};

} // namespace llmc

#endif // LLMC_PASSES_SHARD_SEQUENCEDIMS_H
