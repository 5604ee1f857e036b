#include "passes/4-partition/FlattenStates/StackedOperands.h"

#include "dialects/graph/Build.h"
#include "llvm/ADT/BitVector.h"

using namespace mlir;
using namespace llmc;
using graph::RepeatOp;

static RankedTensorType stackedType(Value value, int64_t count) {
  SmallVector<int64_t> shape{count};
  llvm::append_range(shape, graph::shapeOf(value));
  return RankedTensorType::get(shape, graph::elementOf(value));
}

// Replaces the body's arguments for what goes, and drops them. Returns the slice of what comes.
static BlockArgument editArguments(RepeatOp op, const flat::StackedEdit &edit) {
  Block &block = op.getBlock();
  unsigned carried = op.getCarried().size(), stacked = op.getStacked().size();
  auto type = RankedTensorType::get(graph::shapeOf(edit.added).drop_front(),
                                    graph::elementOf(edit.added));
  BlockArgument slice = block.insertArgument(carried + stacked, type, edit.added.getLoc());
  OpBuilder start = OpBuilder::atBlockBegin(&block);
  llvm::BitVector gone(block.getNumArguments());
  for (auto [i, operand] : llvm::enumerate(op.getStacked())) {
    auto at = edit.dropped.find(operand);
    if (at == edit.dropped.end())
      continue;
    BlockArgument old = block.getArgument(carried + i);
    if (!old.use_empty())
      old.replaceAllUsesWith(edit.tensorOf(start, slice, at->second));
    gone.set(carried + i);
  }
  block.eraseArguments(gone);
  return slice;
}

// Replaces what the body yields for results that go. Returns what it yields for the new one.
static Value editYield(RepeatOp op, const flat::StackedEdit &edit, BlockArgument slice,
                       size_t tensors) {
  Operation *yield = op.getBlock().getTerminator();
  SmallVector<Value> yielded(tensors);
  llvm::BitVector gone(yield->getNumOperands());
  for (auto [result, number] : edit.droppedResults) {
    unsigned i = cast<OpResult>(result).getResultNumber();
    yielded[number] = yield->getOperand(i);
    gone.set(i);
  }
  yield->eraseOperands(gone);
  if (!edit.yield)
    return {};
  OpBuilder builder(yield);
  Value value = edit.yield(builder, slice, yielded);
  yield->insertOperands(yield->getNumOperands(), value);
  return value;
}

Value flat::editStacked(RepeatOp op, const StackedEdit &edit, size_t tensors) {
  BlockArgument slice = editArguments(op, edit);
  Value yielded = editYield(op, edit, slice, tensors);
  SmallVector<Value> stacked;
  for (Value operand : op.getStacked())
    if (!edit.dropped.count(operand))
      stacked.push_back(operand);
  stacked.push_back(edit.added);
  SmallVector<Type> carriedTypes(op.getCarriedResults().getTypes()), stackedTypes;
  SmallVector<Value> kept;
  for (Value result : op->getResults())
    if (!edit.droppedResults.count(result))
      kept.push_back(result);
  for (Value result : ArrayRef(kept).drop_front(carriedTypes.size()))
    stackedTypes.push_back(result.getType());
  if (yielded)
    stackedTypes.push_back(stackedType(yielded, op.getCount()));
  OpBuilder builder(op);
  auto made = RepeatOp::create(builder, op.getLoc(), carriedTypes, stackedTypes, op.getCount(),
                               op.getReverse(), op.getCarried(), stacked, op.getCaptured());
  made->setDiscardableAttrs(op->getDiscardableAttrDictionary());
  made.getBody().takeBody(op.getBody());
  for (auto [from, to] : llvm::zip(kept, made->getResults()))
    from.replaceAllUsesWith(to);
  op->erase();
  return yielded ? made->getResults().back() : Value();
}
