// Heads looked up where more of them are needed, and sums over those repeats.
#ifndef LLMC_PASSES_SHARD_REPEATKVHEADS_REPEATER_H
#define LLMC_PASSES_SHARD_REPEATKVHEADS_REPEATER_H

#include "dialects/graph/Build.h"

namespace llmc {

// Works on operands and results of one op. `heads` is a multiple of `kvHeads`, and head
// i stands for kv head i / (heads / kvHeads). What it makes serves the op: if that belongs
// to the backward pass, so does this.
class Repeater {
public:
  Repeater(mlir::Operation *op, int64_t kvHeads, int64_t heads);

  // Dimension `dim` of operand `i`, of kvHeads, is looked up to become heads.
  void repeatOperand(unsigned i, int64_t dim);
  // Dimension `dim` of result `i`, which had kvHeads, becomes heads; its users see sums.
  void sumResult(unsigned i, int64_t dim);

private:
  mlir::Operation *op;
  mlir::OpBuilder builder;
  int64_t kvHeads, heads;
  mlir::Value ids;
};

} // namespace llmc

#endif // LLMC_PASSES_SHARD_REPEATKVHEADS_REPEATER_H
