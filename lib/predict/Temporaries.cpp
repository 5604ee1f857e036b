#include "lib/predict/Temporaries.h"

#include "dialects/graph/Graph.h"
#include "dialects/parallel/Annotations.h"
#include "dialects/plan/Plan.h"
#include "lib/predict/Values.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <map>

using namespace mlir;
using namespace llmc;
using namespace llmc::predict;

// Returns whether backward has a value that forward kept, which nothing reads after it.
static bool isResidual(Value value) {
  auto arg = dyn_cast<BlockArgument>(value);
  if (!arg)
    return false;
  unsigned index = arg.getArgNumber();
  if (auto repeat = dyn_cast<graph::RepeatOp>(arg.getOwner()->getParentOp())) {
    unsigned first = repeat.getCarried().size(), end = first + repeat.getStacked().size();
    return index >= first && index < end && isResidual(repeat->getOperand(index));
  }
  auto func = dyn_cast<func::FuncOp>(arg.getOwner()->getParentOp());
  return func && func.getArgAttr(index, parallel::kResidual);
}

double predict::temporaryBytes(Block &block) {
  llvm::DenseMap<Value, size_t> made, read;
  size_t position = 0;
  for (Operation &op : block) {
    for (Value operand : op.getOperands())
      if (Value whole = wholeOf(operand); made.contains(whole))
        read[whole] = position;
    if (!isa<graph::ReshapeOp, graph::SliceOp>(op))
      for (Value result : op.getResults())
        made[result] = position;
    ++position;
  }
  // Finds the last reader of what forward kept, too: a kernel may write over what it is the last to read.
  llvm::DenseMap<Value, size_t> lastRead = read;
  position = 0;
  for (Operation &op : block) {
    for (Value operand : op.getOperands())
      if (Value whole = wholeOf(operand); isResidual(whole))
        lastRead[whole] = position;
    ++position;
  }
  llvm::DenseSet<Value> inResidual; // values that lie where a residual did
  llvm::DenseMap<Value, size_t> born = made;
  position = 0;
  for (Operation &op : block) {
    if (isa<plan::GroupOp>(op)) {
      llvm::SmallDenseSet<Value> taken;
      for (Value result : op.getResults())
        for (Value operand : op.getOperands()) {
          Value whole = wholeOf(operand);
          auto last = lastRead.find(whole);
          if (last == lastRead.end() || last->second != position || bytesOf(whole) != bytesOf(result) || !taken.insert(whole).second)
            continue;
          if (isResidual(whole) || inResidual.contains(whole))
            inResidual.insert(result);
          else
            ++born[result];
          break;
        }
    }
    ++position;
  }
  for (Value given : block.getTerminator()->getOperands())
    read.erase(wholeOf(given));
  std::map<size_t, double> changes;
  for (auto [value, last] : read) {
    if (inResidual.contains(value))
      continue;
    // Counts what layers stack as kept, not as alive here.
    changes[born[value]] += bytesOf(value);
    changes[last + 1] -= bytesOf(value);
  }
  double alive = 0, most = 0;
  position = 0;
  for (Operation &op : block) {
    if (auto change = changes.find(position++); change != changes.end())
      alive += change->second;
    most = std::max(most, alive);
    if (auto repeat = dyn_cast<graph::RepeatOp>(op))
      most = std::max(most, alive + temporaryBytes(repeat.getBlock()));
  }
  return most;
}
