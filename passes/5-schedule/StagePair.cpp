#include "passes/5-schedule/StagePair.h"

#include "dialects/graph/Repeat.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace llmc;
using namespace llmc::parallel;
using graph::RepeatOp;

static Operation *returnOf(func::FuncOp func) { return func.getBody().front().getTerminator(); }

// Maps the number of each residual to the result or argument that has it.
static llvm::MapVector<int64_t, unsigned> residualsOf(func::FuncOp func, bool results) {
  llvm::MapVector<int64_t, unsigned> found;
  unsigned count = results ? func.getNumResults() : func.getNumArguments();
  for (unsigned i = 0; i < count; ++i)
    if (auto id = results ? func.getResultAttrOfType<IntegerAttr>(i, kResidual)
                          : func.getArgAttrOfType<IntegerAttr>(i, kResidual))
      found[id.getInt()] = i;
  return found;
}

//===-- Pairs ---------------------------------------------------------------===//

// Returns the repeat of which `value` is a stacked result; null if it is none.
static RepeatOp stackerOf(Value value) {
  auto repeat = value.getDefiningOp<RepeatOp>();
  bool isStacked =
      repeat && cast<OpResult>(value).getResultNumber() >= repeat.getCarried().size();
  return isStacked ? repeat : RepeatOp();
}

// Returns the repeat that alone reads the argument, as stacked operands; null if there is none.
static RepeatOp readerOf(BlockArgument arg) {
  RepeatOp reader;
  for (OpOperand &use : arg.getUses()) {
    auto repeat = dyn_cast<RepeatOp>(use.getOwner());
    if (!repeat || (reader && reader != repeat))
      return {};
    unsigned first = repeat.getCarried().size();
    if (use.getOperandNumber() < first ||
        use.getOperandNumber() >= first + repeat.getStacked().size())
      return {};
    reader = repeat;
  }
  return reader;
}

SmallVector<BlockPair, 2> StagePair::pairs() {
  SmallVector<BlockPair, 2> layers;
  BlockPair around{&forward.getBody().front(), &backward.getBody().front(), {}, {}, {}};
  auto results = residualsOf(forward, /*results=*/true);
  for (auto [id, index] : residualsOf(backward, /*results=*/false)) {
    auto result = results.find(id);
    if (result == results.end())
      continue;
    BlockArgument arg = backward.getArgument(index);
    Value value = returnOf(forward)->getOperand(result->second);
    RepeatOp from = stackerOf(value), to = readerOf(arg);
    if (!from || !to || from.getCount() != to.getCount()) {
      around.kept[value].push_back(arg);
      continue;
    }
    auto it = llvm::find_if(layers, [&](const BlockPair &pair) {
      return pair.forwardRepeat == from && pair.backwardRepeat == to;
    });
    if (it == layers.end()) {
      layers.push_back({&from.getBlock(), &to.getBlock(), from, to, {}});
      it = std::prev(layers.end());
    }
    Value yielded = from.getBlock().getTerminator()->getOperand(
        cast<OpResult>(value).getResultNumber());
    for (OpOperand &use : arg.getUses())
      it->kept[yielded].push_back(to.getBlock().getArgument(use.getOperandNumber()));
  }
  llvm::sort(layers, [](const BlockPair &a, const BlockPair &b) {
    return a.forwardRepeat != b.forwardRepeat
               ? RepeatOp(a.forwardRepeat)->isBeforeInBlock(RepeatOp(b.forwardRepeat))
               : RepeatOp(a.backwardRepeat)->isBeforeInBlock(RepeatOp(b.backwardRepeat));
  });
  layers.insert(layers.begin(), std::move(around));
  return layers;
}

//===-- Additions -----------------------------------------------------------===//

// Adds an operand to the stacked (or captured) ones of a repeat, unless it is one. Returns the
// argument of the body.
static BlockArgument addOperand(RepeatOp repeat, Value value, bool stacked) {
  unsigned first = repeat.getCarried().size() + (stacked ? 0 : repeat.getStacked().size());
  auto range = stacked ? repeat.getStacked() : repeat.getCaptured();
  for (auto [i, operand] : llvm::enumerate(range))
    if (operand == value)
      return repeat.getBlock().getArgument(first + i);
  unsigned index = first + range.size();
  auto type = cast<RankedTensorType>(value.getType());
  if (stacked)
    type = RankedTensorType::get(type.getShape().drop_front(), type.getElementType());
  if (stacked)
    repeat.getStackedMutable().append(value);
  else
    repeat.getCapturedMutable().append(value);
  return repeat.getBlock().insertArgument(index, type, value.getLoc());
}

// Returns what all iterations of a repeat read as `value`, an argument of its body; null if it differs between them.
static Value capturedAs(RepeatOp repeat, Value value) {
  auto arg = dyn_cast<BlockArgument>(value);
  if (!repeat || !arg || arg.getOwner() != &repeat.getBlock())
    return {};
  int64_t index = arg.getArgNumber() - int64_t(repeat.getCarried().size() + repeat.getStacked().size());
  return index >= 0 ? repeat.getCaptured()[index] : Value();
}

BlockArgument StagePair::residualOf(Value value) {
  OpBuilder builder(forward.getContext());
  Operation *ret = returnOf(forward);
  int64_t next = 0;
  for (auto [id, index] : residualsOf(forward, /*results=*/true)) {
    if (ret->getOperand(index) == value)
      for (auto [ofBackward, at] : residualsOf(backward, /*results=*/false))
        if (ofBackward == id)
          return backward.getArgument(at);
    next = std::max(next, id + 1);
  }
  auto binding = builder.getDictionaryAttr(
      builder.getNamedAttr(kResidual, builder.getI64IntegerAttr(next)));
  ret->insertOperands(ret->getNumOperands(), value);
  (void)forward.insertResult(forward.getNumResults(), value.getType(), binding);
  unsigned index = backward.getNumArguments();
  (void)backward.insertArgument(index, value.getType(), binding, value.getLoc());
  return backward.getArgument(index);
}

BlockArgument StagePair::keep(BlockPair &pair, Value value) {
  if (auto it = pair.kept.find(value); it != pair.kept.end())
    return it->second.front();
  Value whole = value;
  bool stacked = false;
  // Keeps once what all layers read, and stacks what differs between them.
  if (Value captured = capturedAs(pair.forwardRepeat, value)) {
    whole = captured;
  } else if (pair.forwardRepeat) {
    stacked = true;
    OpBuilder builder(forward.getContext());
    std::tie(pair.forwardRepeat, whole) =
        graph::addStackedResult(builder, pair.forwardRepeat, value);
  }
  BlockArgument arg = residualOf(whole);
  if (pair.backwardRepeat)
    arg = addOperand(pair.backwardRepeat, arg, stacked);
  pair.kept[value].push_back(arg);
  return arg;
}

static Source sourceOfArgument(BlockArgument arg) {
  auto func = dyn_cast<func::FuncOp>(arg.getOwner()->getParentOp());
  auto has = [&](StringRef key) { return func && func.getArgAttr(arg.getArgNumber(), key); };
  return has(kState) || has(kFlat)     ? Source::State
         : has(kInput) || has(kScalar) ? Source::Input
                                       : Source::None;
}

// Finds what a value of the forward function that layers read may be made of again: small ops around
// the layers, which multiply nothing and ask no other rank.
Source StagePair::sourceOfTop(Value value) const {
  if (auto arg = dyn_cast<BlockArgument>(value))
    return sourceOfArgument(arg);
  Operation *op = value.getDefiningOp();
  if (op->getNumRegions() || !isa<graph::GraphOpInterface>(op) ||
      isa<graph::MatmulOp, graph::GroupedMatmulOp, graph::AttentionOp>(op))
    return Source::None;
  Source source = Source::State;
  for (Value operand : op->getOperands()) {
    Source one = sourceOfTop(operand);
    if (one == Source::None)
      return one;
    source = one == Source::Input ? one : source;
  }
  return source;
}

Value StagePair::importTop(Value value) {
  if (Value known = imported.lookup(value))
    return known;
  OpBuilder builder(&backward.getBody().front(), backward.getBody().front().begin());
  if (auto arg = dyn_cast<BlockArgument>(value)) {
    DictionaryAttr attrs = forward.getArgAttrDict(arg.getArgNumber());
    for (BlockArgument other : backward.getArguments()) {
      DictionaryAttr has = backward.getArgAttrDict(other.getArgNumber());
      if (has && other.getType() == arg.getType() &&
          llvm::all_of(ArrayRef<StringRef>{kState, kFlat, kLayers, kInput, kScalar},
                       [&](StringRef key) { return has.get(key) == attrs.get(key); }))
        return imported[value] = other;
    }
    unsigned index = backward.getNumArguments();
    (void)backward.insertArgument(index, arg.getType(), attrs, arg.getLoc());
    return imported[value] = backward.getArgument(index);
  }
  IRMapping map;
  Operation *op = value.getDefiningOp();
  for (Value operand : op->getOperands())
    map.map(operand, importTop(operand));
  Operation *after = nullptr;
  for (Value operand : op->getOperands())
    if (Operation *def = map.lookup(operand).getDefiningOp(); def && (!after || after->isBeforeInBlock(def)))
      after = def;
  if (after)
    builder.setInsertionPointAfter(after);
  unsigned result = cast<OpResult>(value).getResultNumber();
  return imported[value] = builder.clone(*op, map)->getResult(result);
}

Source StagePair::sourceOf(const BlockPair &pair, BlockArgument arg) const {
  if (!pair.forwardRepeat)
    return sourceOfArgument(arg);
  auto repeat = RepeatOp(pair.forwardRepeat);
  return arg.getArgNumber() < repeat.getCarried().size()
             ? Source::None
             : sourceOfTop(repeat->getOperand(arg.getArgNumber()));
}

Value StagePair::import(BlockPair &pair, BlockArgument arg) {
  if (sourceOf(pair, arg) == Source::None)
    return {};
  if (!pair.forwardRepeat)
    return importTop(arg);
  unsigned i = arg.getArgNumber(), carried = pair.forwardRepeat.getCarried().size();
  bool stacked = i < carried + pair.forwardRepeat.getStacked().size();
  return addOperand(pair.backwardRepeat, importTop(pair.forwardRepeat->getOperand(i)), stacked);
}

//===-- Removals ------------------------------------------------------------===//

void llmc::cleanBlock(Block &block) {
  // Readers come before what they read: a repeat is cleaned when all that reads it is.
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block))) {
    if (graph::isDead(&op)) {
      op.erase();
      continue;
    }
    auto repeat = dyn_cast<RepeatOp>(op);
    if (!repeat)
      continue;
    OpBuilder builder(repeat);
    repeat = graph::dropUnusedResults(builder, repeat);
    repeat = graph::dropUnusedCarried(builder, repeat);
    graph::eraseDead(repeat.getBlock());
    graph::dropUnusedOperands(repeat);
  }
}

void StagePair::clean() {
  cleanBlock(backward.getBody().front());
  llvm::BitVector args(backward.getNumArguments()), results(forward.getNumResults());
  auto kept = residualsOf(forward, /*results=*/true);
  for (auto [id, index] : residualsOf(backward, /*results=*/false))
    if (backward.getArgument(index).use_empty()) {
      args.set(index);
      results.set(kept[id]);
    }
  (void)backward.eraseArguments(args);
  returnOf(forward)->eraseOperands(results);
  (void)forward.eraseResults(results);
  cleanBlock(forward.getBody().front());
}

//===-- Functions -----------------------------------------------------------===//

bool llmc::computesAlike(Operation *a, Operation *b) {
  auto attrsOf = [](Operation *op) {
    NamedAttrList attrs(op->getAttrDictionary());
    attrs.erase(kOrigin);
    attrs.erase(graph::kBackward);
    return attrs.getDictionary(op->getContext());
  };
  return a->getName() == b->getName() && a->getResultTypes() == b->getResultTypes() && attrsOf(a) == attrsOf(b);
}

SmallVector<std::pair<func::FuncOp, func::FuncOp>> llmc::functionPairs(ModuleOp module) {
  auto isOf = [](func::FuncOp func, StringRef procedure) {
    auto name = func->getAttrOfType<StringAttr>(kProcedure);
    return name && name.getValue() == procedure;
  };
  SmallVector<std::pair<func::FuncOp, func::FuncOp>> pairs;
  for (auto forward : module.getOps<func::FuncOp>())
    for (auto backward : module.getOps<func::FuncOp>())
      if (isOf(forward, "forward") && isOf(backward, "backward") &&
          forward->getAttr(kStage) == backward->getAttr(kStage) &&
          forward->getAttr(kChunk) == backward->getAttr(kChunk))
        pairs.push_back({forward, backward});
  return pairs;
}
