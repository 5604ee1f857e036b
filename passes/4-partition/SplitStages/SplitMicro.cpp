// @micro -> forward_K and backward_K.
//
// A *unit* is an op of one stage, or the part of a repeat that one stage runs.
// An *item* is a value, or the part of a stacked value that one stage holds.
// First every unit asks for its items, which decides arguments, borders and
// residuals; then the functions are written.
#include "dialects/graph/Build.h"
#include "passes/4-partition/SplitStages/SplitStages.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace llmc;
using namespace llmc::parallel;
using graph::RepeatOp;

namespace {
using Item = std::pair<Value, int64_t>; // part -1: whole

struct Unit {
  Operation *op;
  int64_t part; // of a split repeat, else -1
  int64_t stage;
  bool backward;
};

struct Procedure {
  int64_t stage;
  bool backward;
  SmallVector<Item> args, bordersIn, residuals, bordersOut;
  SmallVector<std::pair<Item, Attribute>> states; // results
  SmallVector<Unit> units;
  DenseSet<Item> available;   // as an argument, or to be redone
  DenseMap<Item, Value> values; // while writing
  func::FuncOp func;

  void place(int64_t s, bool b) { stage = s, backward = b; }
};

class MicroSplitter {
public:
  MicroSplitter(func::FuncOp micro, StageSplit &split) : micro(micro), split(split) {
    for (bool backward : {false, true})
      for (int64_t stage = 0; stage < split.stages; ++stage)
        procedures.emplace_back().place(stage, backward);
  }
  LogicalResult run();

private:
  Procedure &at(int64_t stage, bool backward) {
    return procedures[stage + (backward ? split.stages : 0)];
  }
  // Analysis.
  LogicalResult readLayers(RepeatOp op);
  LogicalResult collectUnits();
  LogicalResult addResults();
  LogicalResult needAll(const Unit &unit);
  LogicalResult need(Item item, Procedure &user, Operation *why);
  LogicalResult needFromForward(Item item, int64_t from, Procedure &user, Operation *why);
  void pass(Item item, int64_t from, Procedure &to);
  void hold(BlockArgument arg, Item item, int64_t stage);
  FailureOr<Item> stackedItem(Value value, int64_t part, RepeatOp user);
  Item normal(Value value) const;
  // Writing.
  RankedTensorType typeOf(Item item) const;
  bool isStacked(Item item) const;
  void write(Procedure &procedure);
  void writeUnit(Procedure &procedure, const Unit &unit, OpBuilder &builder);
  void writeRepeat(Procedure &procedure, const Unit &unit, OpBuilder &builder);
  void writeReturn(Procedure &procedure, OpBuilder &builder);
  Value lookup(Procedure &procedure, Item item, OpBuilder &builder);

  func::FuncOp micro;
  StageSplit &split;
  SmallVector<Procedure, 4> procedures;
  DenseMap<Operation *, SmallVector<int64_t>> layers; // of split repeats
  DenseMap<Value, SmallVector<int64_t>> stackedBy;    // of split stacked values
  Shares shares;
};
} // namespace

// Made from nothing: cheaper to make again than to keep.
static bool isFree(Operation *op) { return op && op->getNumOperands() == 0 && isPure(op); }

// The same bytes under another shape.
static bool isAlias(Operation *op) {
  auto graphOp = dyn_cast_or_null<graph::GraphOpInterface>(op);
  return graphOp && op->getNumOperands() == 1 && graphOp.getEmitClass() == graph::EmitClass::Alias;
}

//===-- Units -----------------------------------------------------------------===//

LogicalResult MicroSplitter::readLayers(RepeatOp op) {
  if (split.stages == 1)
    return success();
  SmallVector<int64_t> counts = readCounts(op->getAttr(kLayers));
  if (counts.empty())
    return success(); // all of it in one stage
  int64_t sum = 0;
  for (int64_t count : counts)
    sum += count < 0 ? -1 - op.getCount() : count;
  if (static_cast<int64_t>(counts.size()) != split.stages ||
      sum != static_cast<int64_t>(op.getCount()))
    return op.emitOpError("S1: `parallel.layers` has one count for each of ")
           << split.stages << " stages, which sum to " << op.getCount() << ", got "
           << op->getAttr(kLayers);
  layers[op] = counts;
  return success();
}

LogicalResult MicroSplitter::collectUnits() {
  for (Operation &op : micro.getBody().front().without_terminator()) {
    if (auto repeat = dyn_cast<RepeatOp>(op); repeat && failed(readLayers(repeat)))
      return failure();
    if (isFree(&op))
      continue;
    bool backward = op.hasAttr(kBackward);
    auto add = [&](int64_t part, int64_t stage) {
      return needAll(at(stage, backward).units.emplace_back(Unit{&op, part, stage, backward}));
    };
    auto found = layers.find(&op);
    if (found == layers.end()) {
      int64_t stage = stageOf(&op, split.stages);
      if (stage < 0 || stage >= split.stages)
        return op.emitOpError("stage ") << stage << " is not one of " << split.stages;
      if (failed(add(-1, stage)))
        return failure();
      continue;
    }
    SmallVector<int64_t> parts;
    for (auto [part, count] : llvm::enumerate(found->second))
      if (count > 0)
        parts.push_back(part);
    if (cast<RepeatOp>(op).getReverse())
      std::reverse(parts.begin(), parts.end());
    for (int64_t part : parts)
      if (failed(add(part, part)))
        return failure();
  }
  return success();
}

// The part of a split repeat that runs before `part` (-1: the last of all).
static int64_t partBefore(RepeatOp op, ArrayRef<int64_t> layers, int64_t part) {
  int64_t step = op.getReverse() ? -1 : 1, size = layers.size();
  int64_t k = part >= 0 ? part - step : op.getReverse() ? 0 : size - 1;
  for (; k >= 0 && k < size; k -= step)
    if (layers[k] > 0)
      return k;
  return -1;
}

// The item that a use of `value` outside of repeats' stacked operands means.
Item MicroSplitter::normal(Value value) const {
  auto repeat = value.getDefiningOp<RepeatOp>();
  auto found = repeat ? layers.find(repeat.getOperation()) : layers.end();
  if (found == layers.end() ||
      cast<OpResult>(value).getResultNumber() >= repeat.getCarried().size())
    return {value, -1};
  return {value, partBefore(repeat, found->second, -1)};
}

FailureOr<Item> MicroSplitter::stackedItem(Value value, int64_t part, RepeatOp user) {
  if (part < 0)
    return normal(value);
  ArrayRef<int64_t> counts = layers.find(user.getOperation())->second;
  auto producer = value.getDefiningOp<RepeatOp>();
  auto found = producer ? layers.find(producer.getOperation()) : layers.end();
  if (!isa<BlockArgument>(value) &&
      (found == layers.end() || ArrayRef<int64_t>(found->second) != counts))
    return user.emitOpError("S3: a stacked operand of split layers is a state, or a result of "
                            "layers split in the same way");
  auto [entry, inserted] = stackedBy.try_emplace(value, counts.begin(), counts.end());
  if (!inserted && ArrayRef<int64_t>(entry->second) != counts)
    return user.emitOpError("S3: a stacked value is split as ")
           << llvm::interleaved_array(entry->second) << " and as "
           << llvm::interleaved_array(counts);
  return Item{value, part};
}

//===-- Needs -----------------------------------------------------------------===//

LogicalResult MicroSplitter::needAll(const Unit &unit) {
  Procedure &user = at(unit.stage, unit.backward);
  Unit copy = unit; // `units` may grow
  auto repeat = dyn_cast<RepeatOp>(copy.op);
  unsigned carried = repeat ? repeat.getCarried().size() : 0;
  unsigned stacked = repeat ? repeat.getStacked().size() : 0;
  for (OpOperand &use : copy.op->getOpOperands()) {
    unsigned i = use.getOperandNumber();
    Item item = normal(use.get());
    if (copy.part >= 0 && i < carried) {
      int64_t before = partBefore(repeat, layers.find(copy.op)->second, copy.part);
      if (before >= 0)
        item = {copy.op->getResult(i), before};
    } else if (repeat && i >= carried && i < carried + stacked) {
      FailureOr<Item> part = stackedItem(use.get(), copy.part, repeat);
      if (failed(part))
        return failure();
      item = *part;
    }
    if (failed(need(item, user, copy.op)))
      return failure();
  }
  return success();
}

void MicroSplitter::hold(BlockArgument arg, Item item, int64_t stage) {
  auto name = micro.getArgAttrOfType<FlatSymbolRefAttr>(arg.getArgNumber(), kState);
  if (!name)
    return;
  Family &family = split.familyOf(name.getValue());
  family.holders.insert(stage);
  if (item.second >= 0)
    family.layers = stackedBy[item.first];
}

// A border item goes through every stage between.
void MicroSplitter::pass(Item item, int64_t from, Procedure &to) {
  int64_t step = to.backward ? -1 : 1;
  for (int64_t k = from; k != to.stage; k += step) {
    Procedure &next = at(k + step, to.backward);
    if (!next.available.insert(item).second)
      continue;
    at(k, to.backward).bordersOut.push_back(item);
    next.bordersIn.push_back(item);
  }
}

LogicalResult MicroSplitter::needFromForward(Item item, int64_t from, Procedure &user,
                                             Operation *why) {
  Procedure &forward = at(user.stage, false);
  if (from != user.stage && !forward.available.contains(item))
    return why->emitOpError("S2: the backward of stage ")
           << user.stage << " needs a forward value of stage " << from
           << " (" << getNodeName(item.first.getLoc()) << ")";
  if (isAlias(item.first.getDefiningOp())) {
    Operation *alias = item.first.getDefiningOp();
    return need(normal(alias->getOperand(0)), user, why);
  }
  forward.residuals.push_back(item);
  user.residuals.push_back(item);
  return success();
}

LogicalResult MicroSplitter::need(Item item, Procedure &user, Operation *why) {
  if (user.available.contains(item))
    return success();
  if (auto arg = dyn_cast<BlockArgument>(item.first)) {
    user.available.insert(item);
    user.args.push_back(item);
    hold(arg, item, user.stage);
    return success();
  }
  Operation *op = item.first.getDefiningOp();
  if (isFree(op))
    return success();
  if (item.second < 0 && layers.contains(op))
    return why->emitOpError("S3: the stacked result of split layers is used whole");
  int64_t from = item.second >= 0 ? item.second : stageOf(op, split.stages);
  bool backward = op->hasAttr(kBackward);
  if (from == user.stage && backward == user.backward)
    return success();
  if (backward && !user.backward)
    return why->emitOpError("S2: a forward op needs a backward value");
  if (backward == user.backward) {
    if (backward ? from < user.stage : from > user.stage)
      return why->emitOpError("S2: stage ")
             << user.stage << " needs a " << (backward ? "backward" : "forward")
             << " value of stage " << from << ", which runs after it";
    pass(item, from, user);
    return success();
  }
  if (failed(needFromForward(item, from, user, why)))
    return failure();
  user.available.insert(item);
  return success();
}

LogicalResult MicroSplitter::addResults() {
  Operation *ret = micro.getBody().front().getTerminator();
  for (OpOperand &use : ret->getOpOperands()) {
    auto state = micro.getResultAttrOfType<FlatSymbolRefAttr>(use.getOperandNumber(), kState);
    if (!state)
      return ret->emitOpError("result ") << use.getOperandNumber() << " of @micro is no state";
    if (isa<BlockArgument>(use.get()))
      continue; // unchanged
    auto add = [&](Item item, int64_t stage) -> LogicalResult {
      Operation *op = item.first.getDefiningOp();
      Procedure &procedure = at(stage, op->hasAttr(kBackward));
      procedure.states.push_back({item, state});
      Family &family = split.familyOf(state.getValue());
      family.holders.insert(stage);
      return need(item, procedure, ret);
    };
    auto repeat = use.get().getDefiningOp<RepeatOp>();
    auto found = repeat ? layers.find(repeat.getOperation()) : layers.end();
    if (auto share = shares.find(use.getOperandNumber()); share != shares.end()) {
      for (auto [stage, value] : share->second)
        if (failed(add({value, -1}, stage)))
          return failure();
    } else if (found != layers.end()) {
      for (auto [part, count] : llvm::enumerate(found->second))
        if (count > 0 && failed(add({use.get(), static_cast<int64_t>(part)}, part)))
          return failure();
    } else if (failed(add({use.get(), -1}, stageOf(use.get().getDefiningOp(), split.stages)))) {
      return failure();
    }
  }
  return success();
}

//===-- Writing ---------------------------------------------------------------===//

bool MicroSplitter::isStacked(Item item) const {
  if (item.second < 0)
    return false;
  auto repeat = item.first.getDefiningOp<RepeatOp>();
  return !repeat || cast<OpResult>(item.first).getResultNumber() >= repeat.getCarried().size();
}

RankedTensorType MicroSplitter::typeOf(Item item) const {
  auto type = cast<RankedTensorType>(item.first.getType());
  if (!isStacked(item))
    return type;
  auto repeat = item.first.getDefiningOp<RepeatOp>();
  auto &counts = repeat ? layers.find(repeat.getOperation())->second
                        : stackedBy.find(item.first)->second;
  SmallVector<int64_t> shape(type.getShape());
  shape[0] = counts[item.second];
  return RankedTensorType::get(shape, type.getElementType());
}

Value MicroSplitter::lookup(Procedure &procedure, Item item, OpBuilder &builder) {
  if (Value value = procedure.values.lookup(item))
    return value;
  Operation *op = item.first.getDefiningOp(); // free or an alias: done again
  IRMapping map;
  for (Value operand : op->getOperands())
    map.map(operand, lookup(procedure, normal(operand), builder));
  Operation *clone = builder.clone(*op, map);
  for (auto [from, to] : llvm::zip(op->getResults(), clone->getResults()))
    procedure.values[{from, -1}] = to;
  return procedure.values.lookup(item);
}

void MicroSplitter::writeRepeat(Procedure &procedure, const Unit &unit, OpBuilder &builder) {
  auto op = cast<RepeatOp>(unit.op);
  ArrayRef<int64_t> counts = layers.find(unit.op)->second;
  int64_t before = partBefore(op, counts, unit.part);
  SmallVector<Value> carried, stacked, captured;
  for (auto [i, value] : llvm::enumerate(op.getCarried()))
    carried.push_back(lookup(procedure, before >= 0 ? Item{op->getResult(i), before} : normal(value),
                             builder));
  for (Value value : op.getStacked())
    stacked.push_back(lookup(procedure, {value, unit.part}, builder));
  for (Value value : op.getCaptured())
    captured.push_back(lookup(procedure, normal(value), builder));
  SmallVector<Type> carriedTypes(op.getCarriedResults().getTypes()), stackedTypes;
  for (Value result : op.getStackedResults())
    stackedTypes.push_back(typeOf({result, unit.part}));
  auto part = RepeatOp::create(builder, op.getLoc(), carriedTypes, stackedTypes,
                               static_cast<uint64_t>(counts[unit.part]), op.getReverse(), carried,
                               stacked, captured);
  part->setDiscardableAttrs(op->getDiscardableAttrDictionary());
  part->removeDiscardableAttr(kLayers);
  IRMapping map;
  op.getBody().cloneInto(&part.getBody(), map);
  for (auto [from, to] : llvm::zip(op->getResults(), part->getResults()))
    procedure.values[{from, unit.part}] = to;
}

void MicroSplitter::writeUnit(Procedure &procedure, const Unit &unit, OpBuilder &builder) {
  if (unit.part >= 0)
    return writeRepeat(procedure, unit, builder);
  IRMapping map;
  for (Value operand : unit.op->getOperands())
    map.map(operand, lookup(procedure, normal(operand), builder));
  Operation *clone = builder.clone(*unit.op, map);
  for (auto [from, to] : llvm::zip(unit.op->getResults(), clone->getResults()))
    procedure.values[{from, -1}] = to;
}

void MicroSplitter::writeReturn(Procedure &procedure, OpBuilder &builder) {
  func::FuncOp func = procedure.func;
  SmallVector<Value> values;
  SmallVector<Attribute> shardings;
  SmallVector<std::pair<StringRef, Attribute>> bindings;
  auto add = [&](Item item, StringRef name, Attribute binding) {
    values.push_back(lookup(procedure, item, builder));
    shardings.push_back(getSharding(item.first));
    bindings.push_back({name, binding});
  };
  for (auto [i, item] : llvm::enumerate(procedure.bordersOut))
    add(item, kBorder, builder.getI64IntegerAttr(i));
  if (!procedure.backward)
    for (auto [i, item] : llvm::enumerate(procedure.residuals))
      add(item, kResidual, builder.getI64IntegerAttr(i));
  for (auto &[item, state] : procedure.states)
    add(item, kState, state);
  auto ret = func::ReturnOp::create(builder, micro.getLoc(), values);
  ret->setAttr(kIn, builder.getArrayAttr(shardings));
  func.setFunctionType(builder.getFunctionType(func.getArgumentTypes(), ValueRange(values).getTypes()));
  for (auto [i, binding] : llvm::enumerate(bindings)) {
    if (binding.first == kState)
      bindState(func, i, /*isResult=*/true, binding.second, split, procedure.stage);
    else
      func.setResultAttr(i, binding.first, binding.second);
  }
}

void MicroSplitter::write(Procedure &procedure) {
  SmallVector<Type> types;
  SmallVector<Item> items(procedure.args);
  // In the order of @micro, so that equal stages have equal signatures.
  llvm::stable_sort(items, [](Item a, Item b) {
    return cast<BlockArgument>(a.first).getArgNumber() < cast<BlockArgument>(b.first).getArgNumber();
  });
  items.append(procedure.bordersIn);
  if (procedure.backward)
    items.append(procedure.residuals);
  for (Item item : items)
    types.push_back(typeOf(item));
  procedure.func = makeProcedure(split, procedure.backward ? "backward" : "forward",
                                 procedure.stage, types, micro.getLoc());
  func::FuncOp func = procedure.func;
  OpBuilder builder = OpBuilder::atBlockEnd(&func.getBody().front());
  size_t borders = procedure.args.size(), residuals = borders + procedure.bordersIn.size();
  for (auto [i, item] : llvm::enumerate(items)) {
    procedure.values[item] = func.getArgument(i);
    func.getArgument(i).setLoc(item.first.getLoc());
    func.setArgAttr(i, kSharding, getSharding(item.first));
    if (i >= residuals) {
      func.setArgAttr(i, kResidual, builder.getI64IntegerAttr(i - residuals));
    } else if (i >= borders) {
      func.setArgAttr(i, kBorder, builder.getI64IntegerAttr(i - borders));
    } else {
      unsigned arg = cast<BlockArgument>(item.first).getArgNumber();
      if (Attribute state = micro.getArgAttr(arg, kState))
        bindState(func, i, /*isResult=*/false, state, split, procedure.stage);
      else
        func.setArgAttr(i, kInput, micro.getArgAttr(arg, kInput));
    }
  }
  for (const Unit &unit : procedure.units)
    writeUnit(procedure, unit, builder);
  writeReturn(procedure, builder);
  removeDeadOps(func);
}

LogicalResult MicroSplitter::run() {
  shares = splitAccumulators(micro, split.stages);
  if (failed(collectUnits()) || failed(addResults()))
    return failure();
  // What no op of @micro uses still has a holder; the step's own sums have all.
  for (auto state : split.module.getOps<graph::StateOp>()) {
    Family &family = split.familyOf(state.getSymName());
    family.isScalar = state.getRole() == graph::Role::accumulator && !state.getOf();
    if (family.holders.empty())
      family.holders.insert(0);
  }
  for (Procedure &procedure : procedures)
    write(procedure);
  for (auto &[name, family] : split.families)
    if (family.isScalar)
      for (int64_t stage = 0; stage < split.stages; ++stage)
        family.holders.insert(stage);
  return success();
}

LogicalResult llmc::splitMicro(func::FuncOp micro, StageSplit &split) {
  return MicroSplitter(micro, split).run();
}
