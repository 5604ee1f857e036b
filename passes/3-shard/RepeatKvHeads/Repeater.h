// Repeats heads by a lookup, and sums gradients over the repeats. Test:
// test/passes/3-shard/repeat-kv-heads.mlir.
#ifndef LLMC_PASSES_SHARD_REPEATKVHEADS_REPEATER_H
#define LLMC_PASSES_SHARD_REPEATKVHEADS_REPEATER_H

#include "dialects/graph/Build.h"

namespace llmc {

// Rewrites operands and results of one op. `heads` is a multiple of `kvHeads`, and head i stands
// for kv head i / (heads / kvHeads). New ops belong to the backward pass if `op` does.
class Repeater {
public:
  Repeater(mlir::Operation *op, int64_t kvHeads, int64_t heads);

  // Replaces operand `i` by a lookup (graph.gather) that makes kvHeads of dimension `dim` heads.
  void repeatOperand(unsigned i, int64_t dim);
  // Makes kvHeads of dimension `dim` of result `i` heads; users get the sums over the repeats
  // (graph.scatter_add), of the old type.
  void sumResult(unsigned i, int64_t dim);

private:
  mlir::Operation *op;
  mlir::OpBuilder builder;
  int64_t kvHeads, heads;
  mlir::Value ids;
};

} // namespace llmc

#endif // LLMC_PASSES_SHARD_REPEATKVHEADS_REPEATER_H
