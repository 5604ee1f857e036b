// Looks in the forward for the result of each all-to-all that backward does on what is kept.
#include "passes/5-schedule/Passes.h"

#include "passes/5-schedule/StagePair.h"

namespace llmc {
#define GEN_PASS_DEF_KEEPEXCHANGED
#include "passes/5-schedule/Passes.h.inc"

using namespace mlir;
using namespace parallel;
namespace {

// Finds for values of a backward block the values of the forward block that are equal to them: what is
// kept, and what both make of it alike (views above all).
class EqualValues {
public:
  explicit EqualValues(const BlockPair &pair) {
    for (Operation &op : *pair.forward)
      if (op.getNumOperands() == 0)
        sources.push_back(&op);
    for (auto &[value, args] : pair.kept)
      for (BlockArgument arg : args)
        forwardOf[arg] = value;
    for (Operation &op : *pair.backward)
      if (Operation *same = findSame(&op))
        for (auto [mine, theirs] : llvm::zip(op.getResults(), same->getResults()))
          forwardOf[mine] = theirs;
  }

  // Returns the equal value; null if there is none.
  Value of(Value backward) const { return forwardOf.lookup(backward); }

private:
  Operation *findSame(Operation *op) const {
    if (op->getNumRegions() || op->getNumResults() == 0)
      return nullptr;
    auto isSame = [&](Operation *other) {
      auto isEqual = [&](auto operands) { return of(std::get<0>(operands)) == std::get<1>(operands); };
      return computesAlike(other, op) && llvm::all_of(llvm::zip(op->getOperands(), other->getOperands()), isEqual);
    };
    auto find = [&](auto candidates) {
      auto it = llvm::find_if(candidates, isSame);
      return it == candidates.end() ? nullptr : *it;
    };
    if (op->getNumOperands() == 0) // as offsets of ranks
      return find(sources);
    Value first = of(op->getOperand(0));
    return first ? find(first.getUsers()) : nullptr;
  }

  SmallVector<Operation *> sources; // ops of the forward without operands
  llvm::DenseMap<Value, Value> forwardOf;
};

// Returns the value of the forward that an all-to-all of the backward makes, or brings back; null if
// there is none.
Value findExchanged(AllToAllOp exchange, const EqualValues &equal) {
  if (Value same = equal.of(exchange.getResult()))
    return same;
  Value operand = equal.of(exchange.getOperand());
  auto made = operand ? operand.getDefiningOp<AllToAllOp>() : AllToAllOp();
  bool undone = made && made.getAxes() == exchange.getAxes() && made.getSplit() == exchange.getConcat() &&
                made.getConcat() == exchange.getSplit();
  return undone ? made.getOperand() : Value();
}

struct KeepExchanged : impl::KeepExchangedBase<KeepExchanged> {
  void runOnOperation() override {
    for (auto [forward, backward] : functionPairs(getOperation())) {
      StagePair stage(forward, backward);
      bool changed = false;
      for (size_t i = 0, count = stage.pairs().size(); i < count; ++i)
        changed |= spare(stage, stage.pairs()[i]);
      if (changed)
        stage.clean();
    }
  }

  // Returns whether backward has fewer all-to-alls than before.
  bool spare(StagePair &stage, BlockPair pair) {
    bool changed = false;
    EqualValues equal(pair);
    for (auto exchange : llvm::to_vector(pair.backward->getOps<AllToAllOp>())) {
      Value exchanged = findExchanged(exchange, equal);
      if (!exchanged)
        continue;
      ++numSpared;
      exchange.replaceAllUsesWith(Value(stage.keep(pair, exchanged)));
      exchange.erase();
      changed = true;
    }
    return changed;
  }
};

} // namespace
} // namespace llmc
