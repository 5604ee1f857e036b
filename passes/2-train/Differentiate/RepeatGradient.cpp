#include "passes/2-train/Differentiate/RepeatGradient.h"

#include "dialects/graph/Build.h"
#include "mlir/Transforms/RegionUtils.h"

using namespace mlir;
using namespace llmc;
using namespace llmc::graph;
using namespace llmc::train;

static RankedTensorType sliceType(Value stacked) {
  return RankedTensorType::get(shapeOf(stacked).drop_front(), elementOf(stacked));
}
static RankedTensorType stackedType(Value slice, int64_t count) {
  SmallVector<int64_t> shape = {count};
  llvm::append_range(shape, shapeOf(slice));
  return RankedTensorType::get(shape, elementOf(slice));
}

LogicalResult RepeatGradient::build(OpBuilder &builder) {
  inner.active = activityInBody(forward, outer.active);
  SmallVector<bool> liveResults;
  for (Value result : forward->getResults())
    liveResults.push_back(!!outer.cotangents.lookup(result));
  ValueSet live = livenessInBody(forward, liveResults);

  addCarriedCotangents(builder, live);
  addStackedArguments(live);

  MarkBackward mark;
  OpBuilder bodyBuilder(builder.getContext(), &mark);
  bodyBuilder.setInsertionPointToEnd(&block);
  if (failed(mode.differentiate(bodyBuilder, forward.getBlock(), inner)))
    return failure();
  yieldCotangents(bodyBuilder);
  IRRewriter rewriter(builder.getContext());
  (void)runRegionDCE(rewriter, region);
  mode.rematerializeCheapValues(forward.getBlock(), block);
  readForwardValues();
  finish(builder);
  return success();
}

// Adds the cotangents of the carried values, and a sum over the iterations for every captured
// value.
void RepeatGradient::addCarriedCotangents(OpBuilder &builder, const ValueSet &live) {
  Operation *yield = forward.getBlock().getTerminator();
  auto carry = [&](BlockArgument of, Value start, Location loc) {
    if (!start)
      start = Build(builder, forward.getLoc()).constantLike(0, of);
    carried.push_back({of, block.addArgument(start.getType(), loc), start});
  };
  for (auto [i, argument] : llvm::enumerate(forward.getCarriedArgs())) {
    Value start = outer.cotangents.lookup(forward->getResult(i));
    if (!inner.active.contains(argument) || !(start || live.contains(argument)))
      continue;
    // Names it as what an iteration gives, whose cotangent comes in.
    Value yielded = yield->getOperand(i);
    carry(argument, start, yielded.getLoc());
    if (inner.active.contains(yielded))
      seed(yielded, carried.back().argument);
  }
  for (auto [argument, operand] : llvm::zip(forward.getCapturedArgs(), forward.getCaptured())) {
    if (!inner.active.contains(argument) || !live.contains(argument))
      continue;
    // A parameter's gradient is summed over the iterations in its accumulator's type.
    Value accumulator = outer.accumulators.lookup(operand);
    carry(argument, accumulator ? Build(builder, forward.getLoc()).constantLike(0, accumulator) : Value(),
          argument.getLoc());
  }
}

void RepeatGradient::seed(Value of, Value cotangent) {
  MarkBackward mark;
  OpBuilder builder(of.getContext(), &mark);
  builder.setInsertionPointToEnd(&block);
  Value &sum = inner.cotangents[of];
  sum = addCotangents(builder, sum, cotangent);
}

BlockArgument RepeatGradient::addStacked(Value operand, Type type, Location loc) {
  BlockArgument argument = block.insertArgument(carried.size() + stacked.size(), type, loc);
  stacked.push_back(operand);
  return argument;
}

// Adds slices of the stacked results' cotangents, and of the accumulators to which the body can
// add: those of operands that nothing else reads.
void RepeatGradient::addStackedArguments(const ValueSet &live) {
  Operation *yield = forward.getBlock().getTerminator();
  for (auto [i, result] : llvm::enumerate(forward.getStackedResults())) {
    Value yielded = yield->getOperand(forward.getCarried().size() + i);
    Value cotangent = outer.cotangents.lookup(result);
    if (cotangent && inner.active.contains(yielded))
      seed(yielded, addStacked(cotangent, sliceType(cotangent), cotangent.getLoc()));
  }
  for (auto [argument, operand] : llvm::zip(forward.getStackedArgs(), forward.getStacked())) {
    Value accumulator = outer.accumulators.lookup(operand);
    if (accumulator && operand.hasOneUse() && live.contains(argument))
      inner.accumulators[argument] =
          addStacked(accumulator, sliceType(accumulator), accumulator.getLoc());
  }
}

void RepeatGradient::yieldCotangents(OpBuilder &builder) {
  SmallVector<Value> yields;
  SmallVector<Carried> kept;
  for (Carried &value : carried) {
    Value cotangent = inner.cotangents.lookup(value.of);
    bool isCaptured = value.of.getArgNumber() >= forward.getCarried().size();
    if (isCaptured && !cotangent) { // none of its uses passed anything back
      block.eraseArgument(value.argument.getArgNumber());
      continue;
    }
    if (isCaptured)
      cotangent = accumulate(builder, value.argument, cotangent);
    if (!cotangent)
      cotangent = Build(builder, forward.getLoc()).constantLike(0, value.of);
    yields.push_back(cotangent);
    kept.push_back(value);
  }
  carried = std::move(kept);
  for (auto [k, argument] : llvm::enumerate(forward.getStackedArgs())) {
    Value cotangent = inner.accumulated.lookup(argument);
    if (!cotangent)
      cotangent = inner.cotangents.lookup(argument);
    if (Value accumulator = inner.accumulators.lookup(argument); accumulator && !cotangent) {
      // Only integers depend on it, as the choice of experts does: its gradient is zero, layer by layer.
      Build b(builder, argument.getLoc());
      cotangent = inner.accumulated[argument] = b.add(accumulator, b.constantLike(0, accumulator));
    }
    if (!cotangent)
      continue;
    yields.push_back(cotangent);
    gradientOf.push_back(k);
  }
  YieldOp::create(builder, forward.getLoc(), yields);

  // Drop accumulators whose slices got nothing.
  for (size_t i = stacked.size(); i-- > 0;)
    if (block.getArgument(carried.size() + i).use_empty()) {
      block.eraseArgument(carried.size() + i);
      stacked.erase(stacked.begin() + i);
    }
}

// Replaces the values of the forward body that the backward body reads: the backward repeat gets
// the stacked and captured arguments too, and the forward repeat stacks the other values as
// residuals.
void RepeatGradient::readForwardValues() {
  DenseMap<Value, Value> here;
  SmallVector<Value> residuals;
  SmallVector<size_t> places; // of the residuals, in `stacked`
  auto read = [&](Value value) -> Value {
    if (value.getParentBlock() != &forward.getBlock())
      return value;
    Value &argument = here[value];
    if (argument)
      return argument;
    auto outside = dyn_cast<BlockArgument>(value);
    unsigned numCarried = forward.getCarried().size();
    if (!outside || outside.getArgNumber() < numCarried) {
      residuals.push_back(value);
      places.push_back(stacked.size());
      argument = addStacked(Value(), value.getType(), value.getLoc());
    } else if (outside.getArgNumber() < numCarried + forward.getStacked().size()) {
      argument = addStacked(forward->getOperand(outside.getArgNumber()), value.getType(),
                            value.getLoc());
    } else {
      captured.push_back(forward->getOperand(outside.getArgNumber()));
      argument = block.addArgument(value.getType(), value.getLoc());
    }
    return argument;
  };
  for (Operation &op : block)
    for (OpOperand &operand : op.getOpOperands())
      operand.set(read(operand.get()));
  for (auto [place, result] : llvm::zip(places, keepResiduals(residuals)))
    stacked[place] = result;
}

// Makes the forward repeat stack these values of its body; returns its results.
SmallVector<Value> RepeatGradient::keepResiduals(ArrayRef<Value> residuals) {
  unsigned numCarried = forward.getCarried().size();
  auto yield = cast<YieldOp>(forward.getBlock().getTerminator());
  SmallVector<unsigned> resultIndices;
  for (Value value : residuals) {
    unsigned index = numCarried;
    while (index < yield->getNumOperands() && yield->getOperand(index) != value)
      ++index;
    if (index == yield->getNumOperands()) {
      yield->insertOperands(index, value);
      ++mode.numKept;
    }
    resultIndices.push_back(index);
  }

  if (yield->getNumOperands() != forward->getNumResults()) {
    SmallVector<Type> stackedTypes;
    for (Value value : llvm::drop_begin(yield->getOperands(), numCarried))
      stackedTypes.push_back(stackedType(value, forward.getCount()));
    OpBuilder builder(forward);
    auto next = RepeatOp::create(builder, forward.getLoc(), forward.getCarriedResults().getTypes(),
                                 stackedTypes, forward.getCountAttr(), forward.getReverseAttr(),
                                 forward.getCarried(), forward.getStacked(), forward.getCaptured());
    next->setDiscardableAttrs(forward->getDiscardableAttrDictionary());
    next.getBody().takeBody(forward.getBody());
    for (auto [old, fresh] : llvm::zip(forward->getResults(), next->getResults())) {
      old.replaceAllUsesWith(fresh);
      // Erase the old key: another op may get its address.
      outer.cotangents.erase(old);
      outer.active.erase(old);
    }
    forward.erase();
    forward = next;
  }
  SmallVector<Value> results;
  for (unsigned index : resultIndices)
    results.push_back(forward->getResult(index));
  return results;
}

// Creates the op and adds its results to the cotangents of the values around the forward repeat.
void RepeatGradient::finish(OpBuilder &builder) {
  SmallVector<Type> carriedTypes, stackedTypes;
  SmallVector<Value> starts;
  for (Carried &value : carried) {
    starts.push_back(value.start);
    carriedTypes.push_back(value.start.getType());
  }
  for (Value value : llvm::drop_begin(block.getTerminator()->getOperands(), carried.size()))
    stackedTypes.push_back(stackedType(value, forward.getCount()));
  UnitAttr reverse = forward.getReverse() ? UnitAttr() : builder.getUnitAttr();
  auto backward =
      RepeatOp::create(builder, forward.getLoc(), carriedTypes, stackedTypes,
                       forward.getCountAttr(), reverse, starts, stacked, captured);
  backward.getBody().takeBody(region);

  auto give = [&](Value operand, Value cotangent) {
    if (outer.active.contains(operand))
      addTo(builder, operand, cotangent, outer);
  };
  for (auto [value, result] : llvm::zip(carried, backward.getCarriedResults()))
    give(forward->getOperand(value.of.getArgNumber()), result);
  for (auto [k, result] : llvm::zip(gradientOf, backward.getStackedResults())) {
    Value operand = forward.getStacked()[k];
    if (inner.accumulated.contains(forward.getStackedArgs()[k]))
      outer.accumulated[operand] = result;
    else
      give(operand, result);
  }
}
