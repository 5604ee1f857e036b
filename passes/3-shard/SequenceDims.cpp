#include "passes/3-shard/SequenceDims.h"

#include "dialects/graph/Build.h"

namespace llmc {
using namespace mlir;
using namespace parallel;
using graph::FactorKind;

void SequenceDims::followInputs(func::FuncOp func, bool infer) {
  for (BlockArgument arg : func.getArguments())
    if (func.getArgAttr(arg.getArgNumber(), infer ? kBatched : kInput) &&
        cast<RankedTensorType>(arg.getType()).getRank() > 1)
      dims[arg] = 1;
  follow(func.getBody().front());
}

int64_t SequenceDims::of(Value value) const {
  auto it = dims.find(value);
  return it == dims.end() ? -1 : it->second;
}

void SequenceDims::follow(Block &block) {
  for (Operation &op : block)
    if (auto repeat = dyn_cast<graph::RepeatOp>(op))
      followRepeat(repeat);
    else if (isa<graph::GraphOpInterface>(op))
      followOp(&op);
}

// Gives the first operand's sequence to all results that carry its factor, also inside of a merged
// dimension.
void SequenceDims::followOp(Operation *op) {
  const graph::ShardingRule &rule = axis.ruleOf(op);
  for (auto [operand, tensor] : llvm::zip(op->getOperands(), rule.operands)) {
    int64_t dim = of(operand);
    if (dim < 0 || tensor[dim].empty())
      continue;
    unsigned factor = tensor[dim].back();
    if (rule.factors[factor].kind != FactorKind::Parallel)
      continue;
    for (auto [result, carried] : llvm::zip(op->getResults(), rule.results))
      for (auto [d, factors] : llvm::enumerate(carried))
        if (llvm::is_contained(factors, factor))
          dims[result] = d;
    return;
  }
}

void SequenceDims::followRepeat(graph::RepeatOp op) {
  Block &body = op.getBlock();
  int64_t carried = op.getCarried().size(), stacked = op.getStacked().size();
  for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
    bool isStacked = int64_t(i) >= carried && int64_t(i) < carried + stacked;
    if (int64_t dim = of(operand) - (isStacked ? 1 : 0); dim >= 0)
      dims[body.getArgument(i)] = dim;
  }
  follow(body);
  for (auto [i, use] : llvm::enumerate(body.getTerminator()->getOpOperands()))
    if (int64_t dim = of(use.get()); dim >= 0)
      dims[op->getResult(i)] = dim + (int64_t(i) < carried ? 0 : 1);
}

} // namespace llmc
