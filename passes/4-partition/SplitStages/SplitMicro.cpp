// Decides which unit of @micro, or of @forward, needs which item.
#include "passes/4-partition/SplitStages/MicroSplitter.h"

#include "dialects/graph/Build.h"

#include <numeric>

using namespace mlir;
using namespace llmc;
using namespace llmc::parallel;
using namespace llmc::stages;
using graph::RepeatOp;

// Returns whether the op is a reshard that only cuts what a rank has, without communication.
static bool onlyCuts(Operation *op) {
  auto reshard = dyn_cast<ReshardOp>(op);
  if (!reshard || !reshard.getFrom().getUnreduced().empty())
    return false;
  for (auto [from, to] : llvm::zip(getAxes(reshard.getFrom()), getAxes(reshard.getTo())))
    if (from.size() > to.size() || !std::equal(from.begin(), from.end(), to.begin()))
      return false;
  return true;
}

// Returns whether the op depends on inputs alone, which every stage is fed (masks, angles of
// positions), or on nothing.
bool MicroSplitter::isFed(Operation *op) {
  if (!op || !isPure(op))
    return false;
  if (op->getNumOperands() == 0)
    return true;
  if (!isa<graph::GraphOpInterface>(op) && !onlyCuts(op))
    return false;
  if (auto known = fedOps.find(op); known != fedOps.end())
    return known->second;
  bool fed = llvm::all_of(op->getOperands(), [&](Value operand) {
    auto arg = dyn_cast<BlockArgument>(operand);
    return arg ? bool(micro.getArgAttr(arg.getArgNumber(), kInput))
               : isFed(operand.getDefiningOp());
  });
  return fedOps[op] = fed;
}

// Returns whether the op is cheaper to recompute than to keep or to send.
bool MicroSplitter::isFree(Operation *op) {
  return isFed(op) && (split.infer || op->getNumOperands() == 0);
}

// Returns whether the op's result has the bytes of its operand under another shape.
static bool isAlias(Operation *op) {
  auto graphOp = dyn_cast_or_null<graph::GraphOpInterface>(op);
  return graphOp && op->getNumOperands() == 1 && graphOp.getEmitClass() == graph::EmitClass::Alias;
}

// Returns whether the op is an alias of a forward value for the backward pass: each stage that
// needs it makes it again.
static bool isForwardAlias(Operation *op) {
  if (!isAlias(op) || !op->hasAttr(kBackward))
    return false;
  Operation *source = op->getOperand(0).getDefiningOp();
  return !source || !source->hasAttr(kBackward) || isForwardAlias(source);
}

// Returns whether the op is a concatenation of which split repeats use the parts alone, each by its
// stage.
static bool isJoin(Operation *op) {
  return isa<graph::ConcatOp>(op) && !op->use_empty() &&
         llvm::all_of(op->getUses(), [&](OpOperand &use) {
           auto user = dyn_cast<RepeatOp>(use.getOwner());
           unsigned i = use.getOperandNumber();
           return user && i >= user.getCarried().size() && user->hasAttr(kLayers) &&
                  i < user.getCarried().size() + user.getStacked().size();
         });
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
    if (isFree(&op) || isForwardAlias(&op) || isJoin(&op))
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

int64_t llmc::stages::partBefore(RepeatOp op, ArrayRef<int64_t> layers, int64_t part) {
  int64_t step = op.getReverse() ? -1 : 1, size = layers.size();
  int64_t k = part >= 0 ? part - step : op.getReverse() ? 0 : size - 1;
  for (; k >= 0 && k < size; k -= step)
    if (layers[k] > 0)
      return k;
  return -1;
}

// Returns the item that a use of `value` refers to, unless it is a stacked operand of a repeat.
Item MicroSplitter::normal(Value value) const {
  auto repeat = value.getDefiningOp<RepeatOp>();
  auto found = repeat ? layers.find(repeat.getOperation()) : layers.end();
  if (found == layers.end() ||
      cast<OpResult>(value).getResultNumber() >= repeat.getCarried().size())
    return {value, -1};
  return {value, partBefore(repeat, found->second, -1)};
}

// Returns the item that a use on a stage refers to: of a sum that each stage adds by itself, its own part.
Item MicroSplitter::itemOn(int64_t stage, Value value) const {
  return apart.contains(value) ? Item{value, stage} : normal(value);
}

// Returns the part of split layers with whose result of a carried value `part` goes on; -1 if it begins with the operand.
int64_t MicroSplitter::partWith(Value carried, int64_t part) const {
  auto repeat = carried.getDefiningOp<RepeatOp>();
  return apart.contains(carried) ? -1 : partBefore(repeat, layers.find(repeat.getOperation())->second, part);
}

int64_t MicroSplitter::firstLayer(Operation *repeat, int64_t part) const {
  ArrayRef<int64_t> counts = layers.find(repeat)->second;
  return std::accumulate(counts.begin(), counts.begin() + part, int64_t(0));
}

// Returns the part that a slice of a stacked result of split layers reads, if it is all of one
// stage.
std::optional<Item> MicroSplitter::slicedItem(Operation *op) const {
  auto slice = dyn_cast<graph::SliceOp>(op);
  auto repeat = slice ? slice.getOperand().getDefiningOp<RepeatOp>() : RepeatOp();
  auto found = repeat ? layers.find(repeat.getOperation()) : layers.end();
  if (found == layers.end() ||
      cast<OpResult>(slice.getOperand()).getResultNumber() < repeat.getCarried().size())
    return std::nullopt;
  for (auto [part, count] : llvm::enumerate(found->second)) {
    int64_t first = firstLayer(repeat, part);
    if (count > 0 && slice.getStarts()[0] >= first && slice.getLimits()[0] <= first + count)
      return Item{slice.getOperand(), part};
  }
  return std::nullopt;
}

// Returns the operand of a concatenation along the layers that is exactly the part of one stage.
std::optional<Item> MicroSplitter::pieceOf(Value value, int64_t part, RepeatOp user) const {
  auto concat = value.getDefiningOp<graph::ConcatOp>();
  if (!concat || concat.getDim() != 0)
    return std::nullopt;
  ArrayRef<int64_t> counts = layers.find(user.getOperation())->second;
  int64_t begin = 0, first = firstLayer(user, part);
  for (Value piece : concat.getInputs()) {
    int64_t size = graph::shapeOf(piece)[0];
    if (begin == first && size == counts[part])
      return normal(piece);
    begin += size;
  }
  return std::nullopt;
}

FailureOr<Item> MicroSplitter::stackedItem(Value value, int64_t part, RepeatOp user) {
  if (part < 0)
    return normal(value);
  if (std::optional<Item> piece = pieceOf(value, part, user))
    return *piece;
  ArrayRef<int64_t> counts = layers.find(user.getOperation())->second;
  auto producer = value.getDefiningOp<RepeatOp>();
  auto found = producer ? layers.find(producer.getOperation()) : layers.end();
  if (!isa<BlockArgument>(value) &&
      (found == layers.end() || ArrayRef<int64_t>(found->second) != counts))
    return user.emitOpError(
        "S3: a stacked operand of split layers is a state, a result of "
        "layers split in the same way, or a concatenation of the stages' parts");
  auto [entry, inserted] = stackedBy.try_emplace(value, counts.begin(), counts.end());
  if (!inserted && ArrayRef<int64_t>(entry->second) != counts)
    return user.emitOpError("S3: a stacked value is split as ")
           << llvm::interleaved_array(entry->second) << " and as "
           << llvm::interleaved_array(counts)
           << ": layers share weights by groups, and a stage ends inside of a group; use fewer stages, or --stages "
              "that end with the groups";
  return Item{value, part};
}

//===-- Needs -----------------------------------------------------------------===//

LogicalResult MicroSplitter::needAll(const Unit &unit) {
  StageFunction &user = at(unit.stage, unit.backward);
  Unit copy = unit; // `units` may grow
  auto repeat = dyn_cast<RepeatOp>(copy.op);
  unsigned carried = repeat ? repeat.getCarried().size() : 0;
  unsigned stacked = repeat ? repeat.getStacked().size() : 0;
  for (OpOperand &use : copy.op->getOpOperands()) {
    unsigned i = use.getOperandNumber();
    Item item = itemOn(copy.stage, use.get());
    if (std::optional<Item> sliced = slicedItem(copy.op))
      item = *sliced;
    if (copy.part >= 0 && i < carried) {
      int64_t before = partWith(copy.op->getResult(i), copy.part);
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
  StateGroup &family = split.stateGroupOf(name.getValue());
  family.holders.insert(stage % split.stagesOfMesh);
  if (item.second >= 0)
    family.layers = stackedBy[item.first];
}

// Passes an item from stage to stage: it crosses every boundary between `from` and `to`.
void MicroSplitter::pass(Item item, int64_t from, StageFunction &to) {
  int64_t step = to.backward ? -1 : 1;
  for (int64_t k = from; k != to.stage; k += step) {
    StageFunction &next = at(k + step, to.backward);
    if (!next.available.insert(item).second)
      continue;
    at(k, to.backward).bordersOut.push_back(item);
    next.bordersIn.push_back(item);
  }
}

LogicalResult MicroSplitter::needFromForward(Item item, int64_t from, StageFunction &user,
                                             Operation *why) {
  StageFunction &forward = at(user.stage, false);
  if (from > user.stage)
    return why->emitOpError("S2: the backward of stage ")
           << user.stage << " needs a forward value of stage " << from << " ("
           << getNodeName(item.first.getLoc()) << ")";
  pass(item, from, forward);
  if (isAlias(item.first.getDefiningOp())) {
    Operation *alias = item.first.getDefiningOp();
    return need(normal(alias->getOperand(0)), user, why);
  }
  forward.residuals.push_back(item);
  user.residuals.push_back(item);
  return success();
}

LogicalResult MicroSplitter::need(Item item, StageFunction &user, Operation *why) {
  if (user.available.contains(item))
    return success();
  if (auto arg = dyn_cast<BlockArgument>(item.first)) {
    user.available.insert(item);
    user.args.push_back(item);
    hold(arg, item, user.stage);
    return success();
  }
  Operation *op = item.first.getDefiningOp();
  // A training step keeps for the backward pass what its own stage has made, but sends nothing that
  // the other stage can compute.
  if (isFree(op) || isForwardAlias(op) ||
      (stageOf(op, split.stages) != user.stage && (isFed(op) || isAlias(op)))) {
    user.available.insert(item);
    for (Value operand : op->getOperands())
      if (failed(need(normal(operand), user, why)))
        return failure();
    return success();
  }
  if (item.second < 0 && layers.contains(op))
    return why->emitOpError("S3: the stacked result of split layers is used whole: what the layers "
                            "of several stages make meets in one op; use pp = 1");
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

LogicalResult MicroSplitter::addState(OpOperand &use, FlatSymbolRefAttr state) {
  if (isa<BlockArgument>(use.get()))
    return success(); // unchanged
  auto add = [&](Item item, int64_t stage) -> LogicalResult {
    Operation *op = item.first.getDefiningOp();
    StageFunction &procedure = at(stage, op->hasAttr(kBackward));
    procedure.states.push_back({item, state});
    StateGroup &family = split.stateGroupOf(state.getValue());
    family.holders.insert(stage % split.stagesOfMesh);
    return need(item, procedure, use.getOwner());
  };
  auto repeat = use.get().getDefiningOp<RepeatOp>();
  auto found = repeat ? layers.find(repeat.getOperation()) : layers.end();
  if (auto share = shares.find(use.getOperandNumber()); share != shares.end()) {
    for (auto [stage, value] : share->second)
      if (failed(add({value, -1}, stage)))
        return failure();
    return success();
  }
  if (found == layers.end())
    return add({use.get(), -1}, stageOf(use.get().getDefiningOp(), split.stages));
  for (auto [part, count] : llvm::enumerate(found->second))
    if (count > 0 && failed(add({use.get(), static_cast<int64_t>(part)}, part)))
      return failure();
  return success();
}

// Adds an output to the stage that makes it; an argument that is returned to the first stage.
LogicalResult MicroSplitter::addOutput(OpOperand &use) {
  Item item = normal(use.get());
  Operation *op = use.get().getDefiningOp();
  int64_t stage = item.second >= 0 ? item.second : op ? stageOf(op, split.stages) : 0;
  StageFunction &procedure = at(stage, /*backward=*/false);
  procedure.outputs.push_back({item, use.getOperandNumber()});
  return need(item, procedure, use.getOwner());
}

LogicalResult MicroSplitter::addResults() {
  Operation *ret = micro.getBody().front().getTerminator();
  for (OpOperand &use : ret->getOpOperands()) {
    unsigned i = use.getOperandNumber();
    auto state = micro.getResultAttrOfType<FlatSymbolRefAttr>(i, kState);
    if (!state && !(split.infer && micro.getResultAttr(i, kOutput)))
      return ret->emitOpError("result ") << i << " of @" << micro.getSymName() << " is no "
                                         << (split.infer ? "output" : "state");
    if (failed(state ? addState(use, state) : addOutput(use)))
      return failure();
  }
  return success();
}

LogicalResult MicroSplitter::run() {
  shares = splitAccumulators(micro, split.stages, apart);
  if (failed(collectUnits()) || failed(addResults()))
    return failure();
  // A state that no op of @micro uses still gets a holder; all stages hold the step's own sums.
  for (auto state : split.module.getOps<graph::StateOp>()) {
    StateGroup &family = split.stateGroupOf(state.getSymName());
    family.isScalar = state.getRole() == graph::Role::accumulator && !state.getOf();
    if (family.holders.empty())
      family.holders.insert(0);
  }
  for (StageFunction &procedure : procedures)
    if (!split.infer || !procedure.backward)
      write(procedure);
  for (auto &[name, family] : split.stateGroups)
    if (family.isScalar)
      for (int64_t stage = 0; stage < split.stagesOfMesh; ++stage)
        family.holders.insert(stage);
  return success();
}

LogicalResult llmc::splitMicro(func::FuncOp micro, StageSplit &split) {
  return MicroSplitter(micro, split).run();
}
