// Reductions that may move behind all of their readers, because each way ends in an
// accumulator, which is reduced once a step, or in a sum that is reduced anyway.
#include "passes/4-partition/SinkReductions/SinkReductions.h"

using namespace mlir;
using namespace llmc;
using namespace llmc::parallel;
using graph::AddOp;

namespace {
class FreeMoves {
public:
  // Sums over `axes`. `assumed`: a sum in which another term will be partial.
  FreeMoves(ReshardOp op, Axes axes, Operation *assumed = nullptr)
      : like(op), axes(std::move(axes)), assumed(assumed) {}

  bool allUses(Value value) {
    return !value.use_empty() &&
           llvm::all_of(value.getUses(), [&](OpOperand &use) { return isFree(use); });
  }
  // Of the partial sum `use` reads.
  bool isFree(OpOperand &use) {
    Operation *op = use.getOwner();
    if (auto add = dyn_cast<AddOp>(op))
      return isAccumulator(add->getOperand(1 - use.getOperandNumber())) || joins(use.get());
    return isLinear(op, use.getOperandNumber()) && sameMarks(op, like) &&
           allUses(op->getResult(0));
  }

private:
  static bool isLinear(Operation *op, unsigned operand) {
    auto compute = dyn_cast<graph::GraphOpInterface>(op);
    return compute && op->getNumResults() == 1 &&
           llvm::any_of(compute.getShardingRule().linearIn, [&](const auto &set) {
             return ArrayRef<unsigned>(set) == ArrayRef<unsigned>(operand);
           });
  }
  bool isOver(ReshardOp op) const {
    return op && op.getFrom().getDims() == op.getTo().getDims() &&
           op.getFrom().getKind() == graph::ReduceKind::sum && getReducedAxes(op) == axes &&
           op.getTo().getUnreduced().empty() && sameMarks(op, like);
  }
  // Is `value` a term of a sum that has another partial term, or can have?
  bool joins(Value value) {
    AddOp root = getSumOf(value);
    if (!root)
      return false;
    if (root == assumed)
      return true;
    SmallVector<Value> terms;
    collectTerms(root, terms);
    return llvm::any_of(terms, [&](Value term) { return term != value && mayBePartial(term, root); });
  }
  bool mayBePartial(Value term, AddOp root) {
    Operation *op = term.getDefiningOp();
    if (!op || isOver(dyn_cast<ReshardOp>(op)))
      return op;
    if (assumed)
      return false;
    for (OpOperand &use : op->getOpOperands())
      if (auto reshard = use.get().getDefiningOp<ReshardOp>();
          isOver(reshard) && isLinear(op, use.getOperandNumber()) &&
          FreeMoves(like, axes, root).allUses(reshard.getResult()))
        return true;
    return false;
  }

  ReshardOp like;
  Axes axes;
  Operation *assumed;
};
} // namespace

bool llmc::movesForFree(ReshardOp op) {
  bool sums = op.getFrom().getDims() == op.getTo().getDims() &&
              op.getFrom().getKind() == graph::ReduceKind::sum &&
              op.getTo().getUnreduced().empty() && !getReducedAxes(op).empty();
  return sums && FreeMoves(op, getReducedAxes(op)).allUses(op.getResult());
}
