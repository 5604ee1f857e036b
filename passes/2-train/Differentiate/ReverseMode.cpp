#include "passes/2-train/Differentiate/ReverseMode.h"

#include "dialects/graph/Build.h"
#include "dialects/graph/GraphAttrs.h"
#include "passes/2-train/Differentiate/RepeatGradient.h"

using namespace mlir;
using namespace llmc;
using namespace llmc::graph;
using namespace llmc::train;

static bool isBackward(Operation *op) { return op->hasAttr(graph::kBackward); }

Value train::addCotangents(OpBuilder &builder, Value a, Value b) {
  if (!a || !b)
    return a ? a : b;
  Build build(builder, b.getLoc());
  auto bits = [](Value v) { return elementOf(v).getIntOrFloatBitWidth(); };
  Type element = elementOf(bits(a) > bits(b) ? a : b);
  return build.add(build.cast(a, element), build.cast(b, element));
}

// Returns `value`, which one op reads at most, in another element type: computed in it as far back as
// nothing else reads what is computed, so that products and sums round once, to that type. Types of
// `pinned` values stay.
static Value inElement(OpBuilder &builder, Value value, Type element, const ValueSet &pinned) {
  Operation *op = value.getDefiningOp();
  if (elementOf(value) == element)
    return value;
  bool isFree = op && isBackward(op) && op->getNumResults() == 1 && !pinned.contains(value) &&
                (value.use_empty() || value.hasOneUse());
  // Sources state the type of their result themselves; the others have that of their operands.
  if (isFree && isa<CastOp>(op))
    return inElement(builder, op->getOperand(0), element, pinned);
  bool isSource = isFree && isa<MatmulOp, GroupedOuterOp, ScatterAddOp, LayerNormGradScaleOp, RmsNormGradScaleOp,
                                ReduceOp>(op);
  if (isFree && isa<AddOp, ReshapeOp, TransposeOp, PadOp, SliceOp>(op)) {
    for (OpOperand &operand : op->getOpOperands()) {
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPoint(op);
      operand.set(inElement(builder, operand.get(), element, pinned));
    }
    isSource = true;
  }
  if (!isSource)
    return Build(builder, value.getLoc()).cast(value, element);
  value.setType(typeOf(value).clone(element));
  return value;
}

Value train::accumulate(OpBuilder &builder, Value accumulator, Value cotangent,
                        const ValueSet &pinned) {
  Build b(builder, cotangent.getLoc());
  Type element = elementOf(accumulator);
  bool isFree = cotangent.use_empty();
  return b.add(accumulator, isFree ? inElement(builder, cotangent, element, pinned)
                                   : b.cast(cotangent, element));
}

// Records, on the op that computes the whole cotangent of `result`, which result that is.
static void recordPair(OpResult result, Value cotangent) {
  auto made = dyn_cast_or_null<OpResult>(cotangent);
  auto id = result.getOwner()->getAttrOfType<IntegerAttr>(graph::kId);
  if (!made || !id || !isBackward(made.getOwner()))
    return;
  Operation *owner = made.getOwner();
  SmallVector<int64_t> pairs(2 * owner->getNumResults(), -1);
  if (auto known = owner->getAttrOfType<DenseI64ArrayAttr>(graph::kCotangentOf))
    pairs.assign(known.asArrayRef().begin(), known.asArrayRef().end());
  int64_t *pair = &pairs[2 * made.getResultNumber()];
  // An addition passes one cotangent to several values; keep the last of them.
  if (pair[0] >= 0)
    return;
  pair[0] = id.getInt();
  pair[1] = result.getResultNumber();
  owner->setAttr(graph::kCotangentOf, DenseI64ArrayAttr::get(owner->getContext(), pairs));
}

void train::addTo(OpBuilder &builder, Value value, Value cotangent, BlockGradients &gradients, ArrayRef<Value> others) {
  Value &sum = gradients.cotangents[value];
  auto bits = [](Value v) { return elementOf(v).getIntOrFloatBitWidth(); };
  if (sum && gradients.accumulators.contains(value) && bits(sum) != bits(cotangent)) {
    ValueSet pinned(others.begin(), others.end());
    for (auto [other, known] : gradients.cotangents)
      if (other != value && known)
        pinned.insert(known);
    Value &narrow = bits(sum) < bits(cotangent) ? sum : cotangent;
    narrow = inElement(builder, narrow, elementOf(&narrow == &sum ? cotangent : sum), pinned);
  }
  sum = addCotangents(builder, sum, cotangent);
}

// Returns the cotangents of the block's arguments other than `argument`, which the caller reads.
static ValueSet cotangentsBut(Value argument, const BlockGradients &gradients) {
  ValueSet others;
  for (auto [value, cotangent] : gradients.cotangents)
    if (isa<BlockArgument>(value) && value != argument && cotangent)
      others.insert(cotangent);
  return others;
}

LogicalResult ReverseMode::differentiate(OpBuilder &builder, Block &forward,
                                         BlockGradients &gradients) {
  spreadActivity(forward, gradients.active);
  SmallVector<Operation *> ops;
  for (Operation &op : forward.without_terminator())
    if (!isBackward(&op))
      ops.push_back(&op);
  bool failedOnce = false;
  for (Operation *op : llvm::reverse(ops))
    failedOnce |= failed(differentiateOp(builder, op, gradients));
  if (failedOnce)
    return failure();

  for (auto [argument, accumulator] : gradients.accumulators)
    if (Value cotangent = gradients.cotangents.lookup(argument))
      gradients.accumulated[argument] =
          accumulate(builder, accumulator, cotangent, cotangentsBut(argument, gradients));
  return success();
}

// Emits the error for an op without a gradient; names its nodes for a person who knows the source.
static void emitNoGradient(Operation *op) {
  std::string nodes;
  op->getLoc()->walk([&](Location loc) {
    if (auto name = dyn_cast<NameLoc>(loc))
      nodes += (nodes.empty() ? " (node \"" : ", \"") + name.getName().str() + "\"";
    return WalkResult::advance();
  });
  if (!nodes.empty())
    nodes += ")";
  op->emitOpError() << "has no gradient, but a parameter needs one through it" << nodes
                    << "; express it by ops that have one, or freeze what it depends on";
}

LogicalResult ReverseMode::differentiateOp(OpBuilder &builder, Operation *op,
                                           BlockGradients &gradients) {
  auto isActive = [&](Value value) { return gradients.active.contains(value); };
  SmallVector<Value> cotangents;
  for (OpResult result : op->getResults()) {
    Value cotangent = gradients.cotangents.lookup(result);
    if (cotangent)
      recordPair(result, cotangent);
    cotangents.push_back(cotangent);
  }
  if (llvm::none_of(cotangents, [](Value v) { return !!v; }) ||
      llvm::none_of(op->getOperands(), isActive))
    return success();
  if (auto repeat = dyn_cast<RepeatOp>(op))
    return differentiateRepeat(builder, repeat, gradients);

  auto graphOp = dyn_cast<GraphOpInterface>(op);
  SmallVector<Value> operandCotangents;
  if (!graphOp || failed(graphOp.differentiate(builder, cotangents, operandCotangents))) {
    emitNoGradient(op);
    return failure();
  }
  assert(operandCotangents.size() == op->getNumOperands() && "one cotangent per operand");
  for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
    Value cotangent = operandCotangents[i];
    if (!cotangent || !isActive(operand))
      continue;
    SmallVector<Value> others(operandCotangents);
    others.erase(others.begin() + i);
    addTo(builder, operand, cotangent, gradients, others);
  }
  return success();
}

LogicalResult ReverseMode::differentiateRepeat(OpBuilder &builder, RepeatOp op,
                                               BlockGradients &gradients) {
  return RepeatGradient(*this, op, gradients).build(builder);
}

// Returns whether a value is a low one in f32, which holds the same numbers in twice the bytes.
static bool isWidened(Operation *op) {
  auto bits = [](Value v) { return elementOf(v).getIntOrFloatBitWidth(); };
  auto cast = dyn_cast<CastOp>(op);
  return cast && isFloat(cast.getOperand()) && isFloat(cast.getResult()) &&
         bits(cast.getOperand()) < bits(cast.getResult());
}

// Returns whether an op computes places: integers that follow from indices and constants alone.
static bool isPlace(Operation *op) {
  auto isInteger = [](Value value) { return elementOf(value).isInteger(64); };
  return op && isa<GraphOpInterface>(op) && op->getNumRegions() == 0 && llvm::all_of(op->getResults(), isInteger) &&
         llvm::all_of(op->getOperands(), [](Value operand) { return isPlace(operand.getDefiningOp()); });
}

// Returns whether an op does no work, or as good as none, so that repeating it costs less than keeping
// its result.
static bool isCheap(Operation *op) {
  auto graphOp = dyn_cast<GraphOpInterface>(op);
  return graphOp && op->getNumRegions() == 0 &&
         (op->getNumOperands() == 0 || graphOp.getEmitClass() == EmitClass::Alias || isWidened(op) || isPlace(op));
}

void ReverseMode::rematerializeCheapValues(Block &forward, Block &backward) {
  DenseMap<Value, Value> redone;
  for (Operation &op : llvm::make_early_inc_range(backward)) {
    if (&forward == &backward && (!isBackward(&op) || op.hasTrait<OpTrait::IsTerminator>()))
      continue;
    OpBuilder builder(&op);
    auto redo = [&](auto &self, Value value) -> Value {
      Operation *made = value.getDefiningOp();
      if (!made || made->getBlock() != &forward || isBackward(made) || !isCheap(made))
        return value;
      if (Value known = redone.lookup(value))
        return known;
      SmallVector<Value> operands;
      for (Value operand : made->getOperands())
        operands.push_back(self(self, operand));
      builder.setInsertionPoint(&op);
      Operation *copy = builder.clone(*made);
      copy->setOperands(operands);
      copy->removeAttr(graph::kId);
      copy->setAttr(graph::kBackward, builder.getUnitAttr());
      ++numRematerialized;
      for (auto [old, fresh] : llvm::zip(made->getResults(), copy->getResults()))
        redone[old] = fresh;
      return redone[value];
    };
    for (OpOperand &operand : op.getOpOperands())
      operand.set(redo(redo, operand.get()));
  }
}
