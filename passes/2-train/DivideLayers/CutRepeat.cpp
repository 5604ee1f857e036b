#include "passes/2-train/DivideLayers/CutRepeat.h"

#include "dialects/graph/Build.h"
#include "dialects/graph/GraphAttrs.h"
#include "dialects/graph/Repeat.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/SymbolTable.h"

using namespace mlir;
using namespace llmc;
using namespace llmc::stages;
using graph::RepeatOp;
using graph::StateOp;

//===-- Layers of a body ------------------------------------------------------===//

// Returns whether each layer can have a copy of the op.
static bool isConstant(Operation *op) { return op && op->getNumOperands() == 0 && isPure(op); }

// Returns what ops from `at` on, and the carried values that are yielded, need of the ops before it
// and of the carried arguments, constants aside.
static SmallVector<Value> neededFrom(RepeatOp op, Operation *at) {
  Block &block = op.getBlock();
  unsigned carried = op.getCarried().size();
  llvm::SetVector<Value> needed;
  auto need = [&](Value value) {
    auto arg = dyn_cast<BlockArgument>(value);
    Operation *made = value.getDefiningOp();
    if (arg ? arg.getOwner() == &block && arg.getArgNumber() < carried
            : made->getBlock() == &block && made->isBeforeInBlock(at) && !isConstant(made))
      needed.insert(value);
  };
  for (Operation *later = at; later; later = later->getNextNode()) {
    bool isYield = later->hasTrait<OpTrait::IsTerminator>();
    for (OpOperand &use : later->getOpOperands())
      if (!isYield || use.getOperandNumber() < carried)
        need(use.get());
  }
  return needed.takeVector();
}

// Gives each needed value the place of a carried one of its type; nullopt if that cannot be.
static std::optional<SmallVector<Value>> matchCarried(RepeatOp op, SmallVector<Value> needed) {
  if (needed.size() > op.getCarried().size())
    return std::nullopt;
  SmallVector<Value> places;
  for (BlockArgument arg : op.getCarriedArgs()) {
    auto found = llvm::find_if(needed, [&](Value value) { return value.getType() == arg.getType(); });
    if (found == needed.end()) {
      places.push_back(arg); // nothing of it is needed any more
      continue;
    }
    places.push_back(*found);
    needed.erase(found);
  }
  if (!needed.empty())
    return std::nullopt;
  return places;
}

RepeatLayers::RepeatLayers(RepeatOp repeat) : op(repeat), inBody(graph::layersInBody(repeat)) {
  cuts.resize(inBody);
  // A layer ends at the last point before the attention of the next one at which the values that
  // the repeat carries are all that is needed further on.
  int64_t layer = 0;
  std::optional<BodyCut> last;
  for (Operation &inner : op.getBlock().without_terminator()) {
    if (layer > 0 && layer < inBody)
      if (auto places = matchCarried(op, neededFrom(op, &inner)))
        last = BodyCut{&inner, *places};
    bool hasAttention = false;
    inner.walk([&](graph::AttentionOp) { hasAttention = true; });
    if (!hasAttention)
      continue;
    if (layer > 0 && layer < inBody)
      cuts[layer] = last;
    last.reset();
    ++layer;
  }
}

std::vector<double> RepeatLayers::flops() const {
  std::vector<double> costs(inBody, 0);
  int64_t layer = 0;
  for (Operation &inner : RepeatOp(op).getBlock().without_terminator()) {
    while (layer + 1 < inBody && cuts[layer + 1] && cuts[layer + 1]->before == &inner)
      ++layer;
    inner.walk([&](graph::GraphOpInterface compute) { costs[layer] += compute.getFlops(); });
  }
  // Layers that cannot be told apart share what they cost together.
  for (int64_t first = 0; first < inBody;) {
    int64_t end = first + 1;
    while (end < inBody && !cuts[end])
      ++end;
    double all = 0;
    for (int64_t i = first; i < end; ++i)
      all += costs[i];
    std::fill(costs.begin() + first, costs.begin() + end, all / double(end - first));
    first = end;
  }
  return costs;
}

StateOp RepeatLayers::sharedState() const {
  RepeatOp repeat = op;
  auto func = repeat->getParentOfType<func::FuncOp>();
  for (Value value : repeat.getStacked()) {
    auto arg = dyn_cast<BlockArgument>(value);
    auto name = arg && func ? func.getArgAttrOfType<FlatSymbolRefAttr>(arg.getArgNumber(), graph::kState)
                            : FlatSymbolRefAttr();
    if (!name || llvm::all_of(arg.getUsers(), [&](Operation *user) { return user == repeat; }))
      continue;
    if (auto state = SymbolTable::lookupNearestSymbolFrom<StateOp>(func, name); state && state.getStacked())
      return state;
  }
  return {};
}

//===-- Parts -----------------------------------------------------------------===//

namespace {

// Represents layers [from, to) of groups [group, group + count) of a repeat.
struct Part {
  int64_t group, count, from, to;
};

class Cutter {
public:
  explicit Cutter(RepeatLayers &layers)
      : layers(layers), op(layers.op), func(op->getParentOfType<func::FuncOp>()),
        symbols(func->getParentOfType<ModuleOp>()), carried(op.getCarried()),
        exported(op.getStackedResults().size()) {}

  void add(const Part &part);
  void finish();

private:
  struct Piece {
    int64_t group, count;
    Value value;
  };
  Operation *beginOf(int64_t layer);
  Value stackedPart(Value whole, const Part &part);
  Location locationOf(Location loc, const Part &part) const;
  void replaceExported(Value whole, ArrayRef<Piece> pieces);

  RepeatLayers &layers;
  RepeatOp op;
  func::FuncOp func;
  SymbolTable symbols;
  SmallVector<Value> carried;
  SmallVector<RepeatOp> repeats; // made so far
  std::vector<SmallVector<Piece>> exported; // by stacked result
  std::map<std::pair<void *, int64_t>, Value> parts; // of stacked operands, by the first group
};

} // namespace

// Returns the first op of a layer of the body; the terminator behind the last.
Operation *Cutter::beginOf(int64_t layer) {
  return layer == 0               ? &op.getBlock().front()
         : layer == layers.inBody ? op.getBlock().getTerminator()
                                  : layers.cuts[layer]->before;
}

// Returns the part of a location of folded layers that belongs to the groups of `part`.
Location Cutter::locationOf(Location loc, const Part &part) const {
  auto fused = dyn_cast<FusedLoc>(loc);
  auto mark = fused ? dyn_cast_or_null<StringAttr>(fused.getMetadata()) : StringAttr();
  if (!mark || mark.getValue() != graph::kLayersLocation ||
      part.group + part.count > int64_t(fused.getLocations().size()))
    return loc;
  return FusedLoc::get(loc.getContext(), fused.getLocations().slice(part.group, part.count), mark);
}

// Returns the groups of `part` of a stacked operand: of a state a state of its own, else a slice.
Value Cutter::stackedPart(Value whole, const Part &part) {
  Value &known = parts[{whole.getAsOpaquePointer(), part.group}];
  if (known)
    return known;
  auto arg = dyn_cast<BlockArgument>(whole);
  auto name = arg ? func.getArgAttrOfType<FlatSymbolRefAttr>(arg.getArgNumber(), graph::kState)
                  : FlatSymbolRefAttr();
  OpBuilder builder(op);
  auto state = name ? symbols.lookup<StateOp>(name.getAttr()) : StateOp();
  if (!state || !state.getStacked())
    return known = graph::Build(builder, whole.getLoc()).slice(whole, 0, part.group, part.group + part.count);
  auto type = cast<RankedTensorType>(whole.getType());
  SmallVector<int64_t> shape(type.getShape());
  shape[0] = part.count;
  auto own = cast<StateOp>(state->clone());
  builder.setInsertionPoint(state);
  builder.insert(own);
  own.setTypeAttr(TypeAttr::get(RankedTensorType::get(shape, type.getElementType())));
  if (auto views = state.getViews()) { // one for each layer, or for each expert of each layer
    int64_t each = views->size() / type.getDimSize(0);
    own.setViewsAttr(builder.getArrayAttr(views->getValue().slice(part.group * each, part.count * each)));
  }
  own->setLoc(locationOf(state.getLoc(), part));
  StringAttr symbol = symbols.insert(own, Block::iterator(state));
  NamedAttrList attrs(func.getArgAttrDict(arg.getArgNumber()));
  attrs.set(graph::kState, FlatSymbolRefAttr::get(symbol));
  unsigned index = arg.getArgNumber();
  (void)func.insertArgument(index, own.getType(), attrs.getDictionary(func.getContext()),
                            locationOf(arg.getLoc(), part));
  return known = func.getArgument(index);
}

void Cutter::add(const Part &part) {
  Operation *begin = beginOf(part.from), *end = beginOf(part.to);
  Block &block = op.getBlock();
  unsigned numCarried = op.getCarried().size(), numStacked = op.getStacked().size();
  llvm::SmallDenseSet<Value> read;
  for (Operation *inner = begin; inner != end; inner = inner->getNextNode())
    inner->walk([&](Operation *nested) { read.insert(nested->operand_begin(), nested->operand_end()); });
  auto *yield = block.getTerminator();
  SmallVector<Value> yielded = part.to == layers.inBody
                                   ? SmallVector<Value>(yield->getOperands().take_front(numCarried))
                                   : layers.cuts[part.to]->carried;
  SmallVector<unsigned> exports; // made by these layers; what is passed on as it came: by the first
  for (unsigned i = 0; i < exported.size(); ++i) {
    Value value = yield->getOperand(numCarried + i);
    Operation *made = value.getDefiningOp();
    bool own = made && made->getBlock() == &block ? !made->isBeforeInBlock(begin) && made->isBeforeInBlock(end)
                                                  : part.from == 0;
    if (!own)
      continue;
    exports.push_back(i);
    yielded.push_back(value);
  }
  read.insert(yielded.begin(), yielded.end());

  SmallVector<Value> stacked, captured;
  SmallVector<BlockArgument> from; // arguments of the old body, in the order of the new one's
  llvm::append_range(from, op.getCarriedArgs());
  for (auto [i, arg] : llvm::enumerate(op.getStackedArgs()))
    if (read.contains(arg)) {
      stacked.push_back(stackedPart(op->getOperand(numCarried + i), part));
      from.push_back(arg);
    }
  for (auto [i, arg] : llvm::enumerate(op.getCapturedArgs()))
    if (read.contains(arg)) {
      captured.push_back(op->getOperand(numCarried + numStacked + i));
      from.push_back(arg);
    }
  SmallVector<Type> types;
  for (unsigned i : exports) {
    auto type = cast<RankedTensorType>(op.getStackedResults()[i].getType());
    SmallVector<int64_t> shape(type.getShape());
    shape[0] = part.count;
    types.push_back(RankedTensorType::get(shape, type.getElementType()));
  }
  OpBuilder builder(op);
  auto made = RepeatOp::create(builder, locationOf(op.getLoc(), part), op.getCarriedResults().getTypes(), types,
                               uint64_t(part.count), /*reverse=*/false, carried, stacked, captured);
  made->setDiscardableAttrs(op->getDiscardableAttrDictionary());
  Block *body = builder.createBlock(&made.getBody());
  IRMapping map;
  for (BlockArgument arg : from)
    map.map(arg, body->addArgument(arg.getType(), arg.getLoc()));
  if (part.from > 0)
    for (auto [value, arg] : llvm::zip(layers.cuts[part.from]->carried, body->getArguments()))
      map.map(value, arg);
  auto clone = [&](Operation &inner) {
    builder.clone(inner, map)->walk([&](Operation *copy) { copy->setLoc(locationOf(copy->getLoc(), part)); });
  };
  for (Operation &inner : llvm::make_range(block.begin(), Block::iterator(begin)))
    if (isConstant(&inner) && llvm::any_of(inner.getResults(), [&](Value value) { return read.contains(value); }))
      clone(inner);
  for (Operation &inner : llvm::make_range(Block::iterator(begin), Block::iterator(end)))
    clone(inner);
  SmallVector<Value> values;
  for (Value value : yielded)
    values.push_back(map.lookupOrDefault(value));
  graph::YieldOp::create(builder, locationOf(yield->getLoc(), part), values);
  carried.assign(made.getCarriedResults().begin(), made.getCarriedResults().end());
  repeats.push_back(made);
  for (auto [i, result] : llvm::zip(exports, made.getStackedResults()))
    exported[i].push_back({part.group, part.count, result});
}

// Replaces a stacked result: a slice of one part's groups by one of that part, other uses by all
// parts together.
void Cutter::replaceExported(Value whole, ArrayRef<Piece> pieces) {
  OpBuilder builder(op);
  builder.setInsertionPointAfter(op);
  Value joined;
  for (OpOperand &use : llvm::make_early_inc_range(whole.getUses())) {
    auto slice = dyn_cast<graph::SliceOp>(use.getOwner());
    const Piece *own = nullptr;
    for (const Piece &piece : pieces)
      if (slice && slice.getStarts()[0] >= piece.group && slice.getLimits()[0] <= piece.group + piece.count)
        own = &piece;
    if (own) {
      SmallVector<int64_t> starts(slice.getStarts()), limits(slice.getLimits());
      starts[0] -= own->group;
      limits[0] -= own->group;
      slice.setStarts(starts);
      slice.setLimits(limits);
      use.set(own->value);
      continue;
    }
    if (!joined) {
      SmallVector<Value> values;
      for (const Piece &piece : pieces)
        values.push_back(piece.value);
      joined = graph::Build(builder, whole.getLoc()).concat(values, 0);
    }
    use.set(joined);
  }
}

void Cutter::finish() {
  for (auto [old, now] : llvm::zip(op.getCarriedResults(), carried))
    old.replaceAllUsesWith(now);
  for (auto [old, pieces] : llvm::zip(op.getStackedResults(), exported))
    replaceExported(old, pieces);
  llvm::SetVector<Value> stacked(op.getStacked().begin(), op.getStacked().end());
  op.erase();
  for (RepeatOp made : repeats) {
    OpBuilder builder(made);
    graph::dropUnusedResults(builder, made);
  }
  for (Value value : stacked) {
    auto arg = dyn_cast<BlockArgument>(value);
    auto name = arg ? func.getArgAttrOfType<FlatSymbolRefAttr>(arg.getArgNumber(), graph::kState)
                    : FlatSymbolRefAttr();
    auto state = name ? symbols.lookup<StateOp>(name.getAttr()) : StateOp();
    if (!state || !state.getStacked() || !arg.use_empty())
      continue;
    symbols.erase(state);
    (void)func.eraseArgument(arg.getArgNumber());
  }
}

// Returns where the parts of a repeat end, in layers.
static std::set<int64_t> endsOf(const RepeatLayers &layers, const std::set<int64_t> &bounds,
                                const std::set<int64_t> &hard) {
  int64_t q = layers.inBody, all = layers.count();
  std::set<int64_t> ends = {all};
  for (int64_t bound : hard)
    if (bound > 0 && bound < all)
      ends.insert(bound);
  for (int64_t bound : bounds)
    if (bound > 0 && bound < all && bound % q)
      ends.insert(bound);
  for (int64_t end : std::set<int64_t>(ends))
    if (end % q) {
      ends.insert(end / q * q);
      ends.insert((end / q + 1) * q);
    }
  ends.erase(0);
  return ends;
}

bool llmc::stages::needsCut(const RepeatLayers &layers, const std::set<int64_t> &bounds,
                            const std::set<int64_t> &hard) {
  return endsOf(layers, bounds, hard).size() > 1;
}

int64_t llmc::stages::cutRepeat(RepeatLayers layers, const std::set<int64_t> &bounds,
                                const std::set<int64_t> &hard) {
  std::set<int64_t> ends = endsOf(layers, bounds, hard);
  if (ends.size() == 1)
    return 1;
  Cutter cutter(layers);
  int64_t begin = 0, q = layers.inBody;
  for (int64_t end : ends) {
    bool isWhole = begin % q == 0 && end % q == 0;
    cutter.add(isWhole ? Part{begin / q, (end - begin) / q, 0, q}
                       : Part{begin / q, 1, begin % q, end - begin / q * q});
    begin = end;
  }
  cutter.finish();
  return int64_t(ends.size());
}
