#include "dialects/graph/Repeat.h"

#include "dialects/graph/Build.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;

namespace llmc::graph {

// Returns `type` with another leading dimension.
static Type resized(Type type, int64_t leading) {
  auto tensor = cast<RankedTensorType>(type);
  SmallVector<int64_t> shape(tensor.getShape());
  shape[0] = leading;
  return RankedTensorType::get(shape, tensor.getElementType());
}

// Creates a repeat like `op`, its discardable attributes included, without a body.
static RepeatOp createLike(OpBuilder &builder, RepeatOp op, int64_t count, bool reverse,
                           ValueRange carried, ValueRange stacked, TypeRange stackedTypes) {
  auto repeat = RepeatOp::create(builder, op.getLoc(), carried.getTypes(), stackedTypes, count, reverse, carried, stacked,
                                 op.getCaptured());
  repeat->setDiscardableAttrs(op->getDiscardableAttrDictionary());
  return repeat;
}

static void replaceRepeat(RepeatOp op, ValueRange carried, ValueRange stacked) {
  SmallVector<Value> results(carried);
  results.append(stacked.begin(), stacked.end());
  op->replaceAllUsesWith(results);
  op->erase();
}

std::pair<RepeatOp, RepeatOp> splitRepeat(OpBuilder &builder, RepeatOp op, int64_t at) {
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(op);
  Build b(builder, op.getLoc());
  int64_t count = op.getCount();
  // Give indices below `low` to one part, which runs first unless the repeat is reversed.
  int64_t low = op.getReverse() ? count - at : at;
  auto part = [&](int64_t start, int64_t limit, ValueRange carried) {
    SmallVector<Value> stacked;
    for (Value value : op.getStacked())
      stacked.push_back(b.slice(value, 0, start, limit));
    SmallVector<Type> types;
    for (Type type : op.getStackedResults().getTypes())
      types.push_back(resized(type, limit - start));
    RepeatOp repeat =
        createLike(builder, op, limit - start, op.getReverse(), carried, stacked, types);
    IRMapping mapping;
    op.getBody().cloneInto(&repeat.getBody(), mapping);
    return repeat;
  };
  RepeatOp first, second;
  if (op.getReverse()) {
    first = part(low, count, op.getCarried());
    second = part(0, low, first.getCarriedResults());
  } else {
    first = part(0, low, op.getCarried());
    second = part(low, count, first.getCarriedResults());
  }
  RepeatOp below = op.getReverse() ? second : first, above = op.getReverse() ? first : second;
  SmallVector<Value> joined;
  for (auto [a, c] : llvm::zip(below.getStackedResults(), above.getStackedResults()))
    joined.push_back(b.concat({a, c}, 0));
  replaceRepeat(op, second.getCarriedResults(), joined);
  return {first, second};
}

Location locationOfLayer(Location loc, int64_t layer) {
  auto fused = dyn_cast<FusedLoc>(loc);
  auto mark = fused ? dyn_cast_or_null<StringAttr>(fused.getMetadata()) : StringAttr();
  if (!mark || mark.getValue() != kLayersLocation ||
      layer >= static_cast<int64_t>(fused.getLocations().size()))
    return loc;
  return fused.getLocations()[layer];
}

LogicalResult unrollRepeat(OpBuilder &builder, RepeatOp op, int64_t firstLayer) {
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(op);
  Build b(builder, op.getLoc());
  int64_t count = op.getCount();
  SmallVector<Value> carried(op.getCarried());
  std::vector<SmallVector<Value>> pieces(op.getStackedResults().size(), SmallVector<Value>(count));
  for (int64_t step = 0; step < count; ++step) {
    int64_t i = op.getReverse() ? count - 1 - step : step;
    IRMapping mapping;
    mapping.map(op.getCarriedArgs(), carried);
    mapping.map(op.getCapturedArgs(), op.getCaptured());
    for (auto [argument, value] : llvm::zip(op.getStackedArgs(), op.getStacked()))
      mapping.map(argument, b.reshape(b.slice(value, 0, i, i + 1), shapeOf(argument)));
    for (Operation &inner : op.getBlock().without_terminator())
      builder.clone(inner, mapping)->walk([&](Operation *copy) {
        copy->setLoc(locationOfLayer(copy->getLoc(), firstLayer + i));
      });
    OperandRange yielded = op.getBlock().getTerminator()->getOperands();
    for (auto [k, value] : llvm::enumerate(yielded.take_front(carried.size())))
      carried[k] = mapping.lookupOrDefault(value);
    for (auto [k, yield] : llvm::enumerate(yielded.drop_front(carried.size()))) {
      Value value = mapping.lookupOrDefault(yield);
      SmallVector<int64_t> shape{1};
      llvm::append_range(shape, shapeOf(value));
      pieces[k][i] = b.reshape(value, shape);
    }
  }
  SmallVector<Value> stacked;
  for (const SmallVector<Value> &parts : pieces)
    stacked.push_back(count == 1 ? parts[0] : b.concat(parts, 0));
  replaceRepeat(op, carried, stacked);
  return success();
}

LogicalResult peelFirst(OpBuilder &builder, RepeatOp op) {
  if (op.getCount() == 1)
    return unrollRepeat(builder, op);
  return unrollRepeat(builder, splitRepeat(builder, op, 1).first);
}

// Reverses the order along dimension 0 by slices and a concat.
static Value reversed(Build &b, Value value) {
  int64_t count = shapeOf(value)[0];
  if (count == 1)
    return value;
  SmallVector<Value> parts;
  for (int64_t i = count; i-- > 0;)
    parts.push_back(b.slice(value, 0, i, i + 1));
  return b.concat(parts, 0);
}

RepeatOp reverseRepeat(OpBuilder &builder, RepeatOp op) {
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(op);
  Build b(builder, op.getLoc());
  SmallVector<Value> stacked;
  for (Value value : op.getStacked())
    stacked.push_back(reversed(b, value));
  RepeatOp repeat = createLike(builder, op, op.getCount(), !op.getReverse(), op.getCarried(),
                               stacked, op.getStackedResults().getTypes());
  repeat.getBody().takeBody(op.getBody());
  SmallVector<Value> results;
  for (Value value : repeat.getStackedResults())
    results.push_back(reversed(b, value));
  replaceRepeat(op, repeat.getCarriedResults(), results);
  return repeat;
}

std::pair<RepeatOp, Value> addStackedResult(OpBuilder &builder, RepeatOp op, Value value) {
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(op);
  SmallVector<Type> types(op.getStackedResults().getTypes());
  SmallVector<int64_t> shape{static_cast<int64_t>(op.getCount())};
  llvm::append_range(shape, shapeOf(value));
  types.push_back(RankedTensorType::get(shape, elementOf(value)));
  RepeatOp repeat = createLike(builder, op, op.getCount(), op.getReverse(), op.getCarried(),
                               op.getStacked(), types);
  repeat.getBody().takeBody(op.getBody());
  Operation *yield = repeat.getBlock().getTerminator();
  yield->insertOperands(yield->getNumOperands(), value);
  replaceRepeat(op, repeat.getCarriedResults(), repeat.getStackedResults().drop_back());
  return {repeat, repeat.getStackedResults().back()};
}

std::pair<RepeatOp, Value> addCarried(OpBuilder &builder, RepeatOp op, Value initial, Value term) {
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(op);
  SmallVector<Value> carried(op.getCarried());
  carried.push_back(initial);
  RepeatOp repeat = createLike(builder, op, op.getCount(), op.getReverse(), carried, op.getStacked(),
                               op.getStackedResults().getTypes());
  repeat.getBody().takeBody(op.getBody());
  Block &body = repeat.getBlock();
  unsigned index = carried.size() - 1;
  BlockArgument sum = body.insertArgument(index, initial.getType(), initial.getLoc());
  Operation *yield = body.getTerminator();
  builder.setInsertionPoint(yield);
  Value next = Build(builder, term.getLoc()).add(sum, term);
  yield->insertOperands(index, next);
  replaceRepeat(op, repeat.getCarriedResults().drop_back(), repeat.getStackedResults());
  return {repeat, repeat.getCarriedResults().back()};
}

RepeatOp dropUnusedResults(OpBuilder &builder, RepeatOp op) {
  unsigned carried = op.getCarried().size();
  llvm::BitVector unused(op->getNumResults());
  SmallVector<Type> types;
  for (OpResult result : op.getStackedResults())
    if (result.use_empty())
      unused.set(result.getResultNumber());
    else
      types.push_back(result.getType());
  if (unused.none())
    return op;
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(op);
  RepeatOp repeat = createLike(builder, op, op.getCount(), op.getReverse(), op.getCarried(),
                               op.getStacked(), types);
  repeat.getBody().takeBody(op.getBody());
  repeat.getBlock().getTerminator()->eraseOperands(unused);
  for (unsigned i = 0, next = 0; i < op->getNumResults(); ++i)
    if (i < carried || !unused[i])
      op->getResult(i).replaceAllUsesWith(repeat->getResult(next++));
  op->erase();
  return repeat;
}

bool isDead(Operation *op) {
  return op->use_empty() && !op->hasTrait<OpTrait::IsTerminator>() && op->getNumResults() &&
         isMemoryEffectFree(op);
}

void eraseDead(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (isDead(&op))
      op.erase();
}

RepeatOp dropUnusedCarried(OpBuilder &builder, RepeatOp op) {
  unsigned carried = op.getCarried().size();
  Operation *yield = op.getBlock().getTerminator();
  // Follows what results in use need: a carried argument needs what is yielded for it.
  llvm::SetVector<Value> needed;
  llvm::BitVector live(carried);
  auto keep = [&](unsigned i) {
    if (!live[i])
      needed.insert(yield->getOperand(i));
    live.set(i);
  };
  for (Operation &inner : op.getBlock().without_terminator())
    if (!isMemoryEffectFree(&inner))
      needed.insert(inner.operand_begin(), inner.operand_end());
  for (OpResult result : op->getResults())
    if (result.getResultNumber() >= carried)
      needed.insert(yield->getOperand(result.getResultNumber()));
    else if (!result.use_empty())
      keep(result.getResultNumber());
  for (size_t next = 0; next < needed.size(); ++next) {
    Value value = needed[next];
    if (auto arg = dyn_cast<BlockArgument>(value)) {
      if (arg.getOwner() == &op.getBlock() && arg.getArgNumber() < carried)
        keep(arg.getArgNumber());
    } else if (value.getParentBlock() == &op.getBlock()) {
      value.getDefiningOp()->walk([&](Operation *inner) {
        needed.insert(inner->operand_begin(), inner->operand_end());
      });
    }
  }
  if (live.all())
    return op;
  llvm::BitVector gone = live;
  gone.flip();
  llvm::BitVector yielded(yield->getNumOperands()), arguments(op.getBlock().getNumArguments());
  SmallVector<Value> initial;
  SmallVector<Type> types;
  for (unsigned i = 0; i < carried; ++i)
    if (live[i]) {
      initial.push_back(op.getCarried()[i]);
      types.push_back(op.getCarried()[i].getType());
    } else {
      yielded.set(i);
      arguments.set(i);
    }
  yield->eraseOperands(yielded);
  eraseDead(op.getBlock());
  op.getBlock().eraseArguments(arguments);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(op);
  auto repeat = RepeatOp::create(builder, op.getLoc(), types, op.getStackedResults().getTypes(),
                                 op.getCount(), op.getReverse(), initial, op.getStacked(), op.getCaptured());
  repeat->setDiscardableAttrs(op->getDiscardableAttrDictionary());
  repeat.getBody().takeBody(op.getBody());
  for (unsigned i = 0, next = 0; i < op->getNumResults(); ++i)
    if (i >= carried || live[i])
      op->getResult(i).replaceAllUsesWith(repeat->getResult(next++));
  op->erase();
  return repeat;
}

void dropUnusedOperands(RepeatOp op) {
  unsigned carried = op.getCarried().size(), stacked = op.getStacked().size();
  for (unsigned i = op->getNumOperands(); i-- > carried;) {
    if (!op.getBlock().getArgument(i).use_empty())
      continue;
    if (i < carried + stacked)
      op.getStackedMutable().erase(i - carried);
    else
      op.getCapturedMutable().erase(i - carried - stacked);
    op.getBlock().eraseArgument(i);
  }
}

int64_t layersInBody(RepeatOp op) {
  int64_t attentions = 0;
  op.walk([&](AttentionOp) { ++attentions; });
  return std::max<int64_t>(attentions, 1);
}

} // namespace llmc::graph
