#include "passes/2-train/Activity.h"

#include "dialects/graph/Build.h"

using namespace mlir;
using namespace llmc;
using namespace llmc::graph;
using namespace llmc::train;

void train::spreadActivity(Block &block, ValueSet &active) {
  auto isActive = [&](Value value) { return active.contains(value); };
  for (Operation &op : block.without_terminator()) {
    if (llvm::none_of(op.getOperands(), isActive))
      continue;
    if (auto repeat = dyn_cast<RepeatOp>(op)) {
      ValueSet body = activityInBody(repeat, active);
      Operation *yield = repeat.getBlock().getTerminator();
      for (auto [result, value] : llvm::zip(op.getResults(), yield->getOperands()))
        if (body.contains(value))
          active.insert(result);
      // A repeat runs at least once, but a carried value starts outside.
      for (auto [result, start] : llvm::zip(repeat.getCarriedResults(), repeat.getCarried()))
        if (isActive(start) && body.contains(yield->getOperand(result.getResultNumber())))
          active.insert(result);
      continue;
    }
    for (Value result : op.getResults())
      if (isa<RankedTensorType>(result.getType()) && isFloat(result))
        active.insert(result);
  }
}

ValueSet train::activityInBody(RepeatOp repeat, const ValueSet &outer) {
  Block &block = repeat.getBlock();
  ValueSet active;
  for (auto [argument, operand] : llvm::zip(block.getArguments(), repeat->getOperands()))
    if (outer.contains(operand))
      active.insert(argument);
  // A value that one iteration makes active is carried into the next: iterate to a fixpoint.
  for (bool changed = true; changed;) {
    changed = false;
    spreadActivity(block, active);
    Operation *yield = block.getTerminator();
    for (auto [i, argument] : llvm::enumerate(repeat.getCarriedArgs()))
      if (active.contains(yield->getOperand(i)))
        changed |= active.insert(argument).second;
  }
  return active;
}

ValueSet train::livenessInBody(RepeatOp repeat, ArrayRef<bool> liveResults) {
  Block &block = repeat.getBlock();
  Operation *yield = block.getTerminator();
  SmallVector<bool> liveYields(liveResults);
  ValueSet live;
  for (bool changed = true; changed;) {
    changed = false;
    for (auto [value, isLive] : llvm::zip(yield->getOperands(), liveYields))
      if (isLive)
        live.insert(value);
    for (Operation &op : llvm::drop_begin(llvm::reverse(block)))
      if (llvm::any_of(op.getResults(), [&](Value v) { return live.contains(v); }))
        live.insert(op.operand_begin(), op.operand_end());
    for (auto [i, argument] : llvm::enumerate(repeat.getCarriedArgs()))
      if (live.contains(argument) && !liveYields[i])
        changed = liveYields[i] = true;
  }
  return live;
}
