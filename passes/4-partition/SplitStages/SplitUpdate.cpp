// Splits @update into update_K.
//
// Every value of @update is of one kind. *Uniform*: computed from host scalars only, the same on
// every stage. *Local*: an element-wise function of the states of one family; it exists where the
// family is held. *Partial*: a sum over families; a stage adds what it owns, and the first op that
// is not a sum makes it uniform by a reduction over the stages.
#include "dialects/graph/Build.h"
#include "passes/4-partition/Origin.h"
#include "passes/4-partition/SplitStages/SplitStages.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace llmc;
using namespace llmc::parallel;

namespace {
enum class ValueKind { Uniform, Local, Partial };

struct Info {
  ValueKind kind = ValueKind::Uniform;
  std::string family;    // of a local value
  int64_t layerDim = -1; // of a local value: the dimension that counts layers
};

class UpdateSplitter {
public:
  UpdateSplitter(func::FuncOp update, StageSplit &split) : update(update), split(split) {}
  LogicalResult run();

private:
  // Classifies values.
  void classifyArguments();
  LogicalResult classify(Operation &op);
  int64_t layerDimOf(Operation &op, OpResult result);
  bool isSum(Operation &op);
  // Writes the function of each stage.
  void write(int64_t stage);
  void writeOp(Operation &op, int64_t stage, OpBuilder &builder);
  void writePartial(Operation &op, int64_t stage, OpBuilder &builder);
  void cloneWith(Operation &op, ValueRange operands, int64_t stage, OpBuilder &builder);
  void sumOverHolders(Value original, int64_t stage, OpBuilder &builder);
  void agree(Value original, OpBuilder &builder);
  Value uniform(Value value, int64_t stage, OpBuilder &builder);
  RankedTensorType typeOf(Value value, int64_t stage);
  void writeReturn(func::FuncOp func, int64_t stage, OpBuilder &builder);
  // Binds an argument or result of the function of a stage of the mesh.
  void bind(NamedAttrList &attributes, Attribute state, int64_t stage) {
    StateGroup &family = split.stateGroupOf(cast<FlatSymbolRefAttr>(state).getValue());
    bindState(attributes, state, split,
              family.isSplit() ? family.virtualStageOn(stage, split.stagesOfMesh) : stage);
  }
  bool isHeld(const Info &info, int64_t stage) {
    return split.stateGroups[info.family].holders.count(stage);
  }

  func::FuncOp update;
  Value skipped; // the output that tells whether the update takes place; null: it always does
  StageSplit &split;
  DenseMap<Value, Info> infos;
  DenseMap<Value, Value> values;  // of the stage being written
  DenseMap<Value, Value> totals;  // partial values made uniform
};
} // namespace

//===-- Kinds -----------------------------------------------------------------===//

void UpdateSplitter::classifyArguments() {
  for (BlockArgument arg : update.getArguments()) {
    Info &info = infos[arg];
    auto name = update.getArgAttrOfType<FlatSymbolRefAttr>(arg.getArgNumber(), kState);
    if (!name)
      continue;
    StateGroup &family = split.stateGroupOf(name.getValue());
    info.kind = family.isScalar ? ValueKind::Partial : ValueKind::Local;
    info.family = split.rootOf(name.getValue());
    info.layerDim = family.isSplit() ? 0 : -1;
  }
}

// Returns the dimension of a result in which the layer dimension of the operands lies, or -1.
int64_t UpdateSplitter::layerDimOf(Operation &op, OpResult result) {
  auto graphOp = dyn_cast<graph::GraphOpInterface>(op);
  if (!graphOp) // reshard
    return infos[op.getOperand(0)].layerDim;
  graph::ShardingRule rule = graphOp.getShardingRule();
  for (auto [i, operand] : llvm::enumerate(op.getOperands())) {
    int64_t dim = infos[operand].layerDim;
    if (dim < 0 || rule.operands[i][dim].empty())
      continue;
    unsigned factor = rule.operands[i][dim].front();
    for (auto [d, factors] : llvm::enumerate(rule.results[result.getResultNumber()]))
      if (llvm::is_contained(factors, factor))
        return d;
  }
  return -1;
}

// Returns whether the op sums the elements of a local value, or adds partial values.
bool UpdateSplitter::isSum(Operation &op) {
  if (isa<graph::AddOp, ReshardOp>(op))
    return llvm::all_of(op.getOperands(),
                        [&](Value v) { return infos[v].kind == ValueKind::Partial; });
  auto reduce = dyn_cast<graph::ReduceOp>(op);
  return reduce && infos[reduce.getOperand()].kind == ValueKind::Local &&
         reduce.getKind() != graph::ReduceKind::max &&
         cast<RankedTensorType>(reduce.getType()).getRank() == 0;
}

LogicalResult UpdateSplitter::classify(Operation &op) {
  Info info;
  for (Value operand : op.getOperands()) {
    Info &from = infos[operand];
    if (from.kind != ValueKind::Local)
      continue;
    if (info.kind == ValueKind::Local && info.family != from.family)
      return op.emitOpError("S4: mixes tensors of the states @")
             << info.family << " and @" << from.family << ", which may live on different stages";
    info.kind = ValueKind::Local;
    info.family = from.family;
  }
  if (isSum(op))
    info.kind = ValueKind::Partial;
  for (OpResult result : op.getResults()) {
    Info &entry = infos[result] = info;
    if (info.kind == ValueKind::Local && split.stateGroups[info.family].isSplit())
      entry.layerDim = layerDimOf(op, result);
  }
  if (auto reduce = dyn_cast<graph::ReduceOp>(op);
      reduce && info.kind == ValueKind::Local && infos[reduce.getOperand()].layerDim >= 0 &&
      infos[reduce.getResult()].layerDim < 0)
    return op.emitOpError("S4: reduces over layers that live on different stages");
  return success();
}

//===-- Writing ---------------------------------------------------------------===//

RankedTensorType UpdateSplitter::typeOf(Value value, int64_t stage) {
  auto type = cast<RankedTensorType>(value.getType());
  Info &info = infos[value];
  if (info.layerDim < 0)
    return type;
  StateGroup &family = split.stateGroups[info.family];
  int64_t all = 0;
  for (int64_t count : family.layers)
    all += count;
  SmallVector<int64_t> shape(type.getShape());
  shape[info.layerDim] =
      shape[info.layerDim] / all * family.layers[family.virtualStageOn(stage, split.stagesOfMesh)];
  return RankedTensorType::get(shape, type.getElementType());
}

static ReshardOp makeReshard(OpBuilder &builder, Value value, ShardingAttr to,
                             ArrayRef<StringAttr> axes, Attribute origin) {
  auto reshard = ReshardOp::create(builder, value.getLoc(), value.getType(), value,
                                   withUnreduced(to, axes), to);
  reshard->setAttr(kOrigin, origin);
  return reshard;
}

// Returns the total of a partial value over all stages. A reduction right before it is merged into
// the same collective.
Value UpdateSplitter::uniform(Value value, int64_t stage, OpBuilder &builder) {
  if (infos[value].kind != ValueKind::Partial)
    return values.lookup(value);
  if (Value total = totals.lookup(value))
    return total;
  Axes axes;
  Value source = value;
  auto reshard = value.getDefiningOp<ReshardOp>();
  bool inSum = llvm::any_of(value.getUsers(), [&](Operation *user) {
    return user->getNumResults() && infos[user->getResult(0)].kind == ValueKind::Partial;
  });
  if (reshard && !inSum) {
    axes.assign(reshard.getFrom().getUnreduced().begin(), reshard.getFrom().getUnreduced().end());
    source = reshard.getOperand();
  }
  // Sums of the step itself run over all stages. They name the stage axis also where it has size 1,
  // which distinguishes them from reductions of gradients.
  if (split.stagesOfMesh > 1 || !axes.empty())
    if (StringAttr axis = split.mesh.getStageAxis())
      axes.push_back(axis);
  Value part = values.lookup(source);
  if (!part) { // this stage owns nothing of the sum
    auto type = cast<RankedTensorType>(value.getType());
    part = graph::ConstantOp::create(
        builder, value.getLoc(), type,
        DenseElementsAttr::get(type, builder.getFloatAttr(type.getElementType(), 0.0)));
  }
  if (axes.empty())
    return totals[value] = part;
  Attribute origin = reshard ? reshard->getAttr(kOrigin) : makeOrigin(value, axes);
  return totals[value] = makeReshard(builder, part, getSharding(value).getReduced(), axes, origin);
}

static void renameOrigin(ReshardOp reshard) {
  NamedAttrList fields(reshard->getAttrOfType<DictionaryAttr>(kOrigin));
  fields.set("node", makeOrigin(reshard.getOperand(), {}).get("node"));
  reshard->setAttr(kOrigin, fields.getDictionary(reshard.getContext()));
}

void UpdateSplitter::cloneWith(Operation &op, ValueRange operands, int64_t stage,
                               OpBuilder &builder) {
  SmallVector<Type> types;
  for (Value result : op.getResults())
    types.push_back(typeOf(result, stage));
  Operation *clone;
  if (isa<graph::GraphOpInterface>(op)) {
    clone = graph::cloneForTypes(builder, &op, operands, types);
  } else {
    IRMapping map;
    map.map(op.getOperands(), operands);
    clone = builder.clone(op, map);
    for (auto [result, type] : llvm::zip(clone->getResults(), types))
      result.setType(type);
    // A part of a stacked state has the name of its own first layer.
    if (auto reshard = dyn_cast<ReshardOp>(clone); reshard && isa<BlockArgument>(op.getOperand(0)))
      renameOrigin(reshard);
  }
  for (auto [from, to] : llvm::zip(op.getResults(), clone->getResults()))
    values[from] = to;
}

// Writes a partial sum of the terms that the stage owns; an add with one such term is that term.
void UpdateSplitter::writePartial(Operation &op, int64_t stage, OpBuilder &builder) {
  SmallVector<Value> operands;
  for (Value operand : op.getOperands()) {
    Info &info = infos[operand];
    StateGroup *family = info.kind == ValueKind::Local ? &split.stateGroups[info.family] : nullptr;
    if (family && !family->isSplit() && family->owner() != stage)
      continue;
    if (Value value = values.lookup(operand))
      operands.push_back(value);
  }
  if (operands.empty())
    return;
  if (operands.size() < op.getNumOperands()) {
    values[op.getResult(0)] = operands.front();
    return;
  }
  cloneWith(op, operands, stage, builder);
}

void UpdateSplitter::writeOp(Operation &op, int64_t stage, OpBuilder &builder) {
  if (op.getNumResults() == 0)
    return;
  Info &info = infos[op.getResult(0)];
  if (info.kind == ValueKind::Partial)
    return writePartial(op, stage, builder);
  if (info.kind == ValueKind::Local && !isHeld(info, stage))
    return;
  SmallVector<Value> operands;
  for (Value operand : op.getOperands())
    operands.push_back(uniform(operand, stage, builder));
  cloneWith(op, operands, stage, builder);
  if (auto reshard = dyn_cast<ReshardOp>(op))
    if (isa<BlockArgument>(reshard.getOperand()))
      sumOverHolders(reshard.getResult(), stage, builder);
  if (op.getResult(0) == skipped)
    agree(skipped, builder);
}

// Makes every rank skip what one skips. The norm does not do that: of a tensor that several ranks
// hold it counts one copy, and another copy may be the one that is not finite.
void UpdateSplitter::agree(Value original, OpBuilder &builder) {
  if (split.mesh.getNumRanks() == 1)
    return;
  Value value = values.lookup(original);
  Axes axes(split.mesh.inGroupOrder(split.mesh.getNames()));
  SmallVector<Attribute> names(axes.begin(), axes.end());
  auto all = AllReduceOp::create(builder, value.getLoc(), value.getType(), value,
                                 builder.getArrayAttr(names), graph::ReduceKind::max,
                                 DenseI64ArrayAttr());
  ShardingAttr whole = getSharding(original);
  setSharding(all.getResult(), whole);
  setRequired(all->getOpOperand(0), whole);
  NamedAttrList fields(makeOrigin(value, axes, "all ranks skip alike"));
  fields.set("tensors", builder.getArrayAttr(describeTensor(
                            value.getType(), {},
                            withUnreduced(whole, axes, graph::ReduceKind::max), whole)));
  all->setAttr(kOrigin, fields.getDictionary(builder.getContext()));
  values[original] = all.getResult();
}

// Sums the gradient of a state over all stages that hold it. `original` is the accumulator, or its
// value once it is reduced over other axes.
void UpdateSplitter::sumOverHolders(Value original, int64_t stage, OpBuilder &builder) {
  Info &info = infos[original];
  StateGroup &family = split.stateGroups[info.family];
  if (info.kind != ValueKind::Local || family.isSplit() || family.holders.size() < 2)
    return;
  Value value = values.lookup(original);
  SmallVector<int64_t> members(family.holders.begin(), family.holders.end());
  StringAttr axis = split.mesh.getStageAxis();
  auto sum = AllReduceOp::create(builder, value.getLoc(), value.getType(), value,
                                 builder.getArrayAttr({axis}), graph::ReduceKind::sum,
                                 builder.getDenseI64ArrayAttr(members));
  ShardingAttr sharding = getSharding(original);
  setSharding(sum.getResult(), sharding);
  setRequired(sum->getOpOperand(0), sharding);
  Value source = value;
  if (auto reshard = source.getDefiningOp<ReshardOp>())
    source = reshard.getOperand();
  NamedAttrList fields(makeOrigin(source, {axis}));
  fields.set("rule", builder.getStringAttr("state held by several stages"));
  ShardingAttr layout = getSharding(original);
  Axes axes(layout.getUnreduced());
  axes.push_back(axis);
  fields.set("tensors", builder.getArrayAttr(describeTensor(value.getType(), {},
                                                            withUnreduced(layout, axes), layout)));
  sum->setAttr(kOrigin, fields.getDictionary(builder.getContext()));
  values[original] = sum.getResult();
}

void UpdateSplitter::writeReturn(func::FuncOp func, int64_t stage, OpBuilder &builder) {
  SmallVector<Value> results;
  SmallVector<Attribute> shardings;
  SmallVector<std::pair<Attribute, Attribute>> bindings; // state, output
  for (OpOperand &use : update.getBody().front().getTerminator()->getOpOperands()) {
    unsigned i = use.getOperandNumber();
    Attribute state = update.getResultAttr(i, kState);
    Info &info = infos[use.get()];
    bool unchanged = isa<BlockArgument>(use.get()) && state;
    if (unchanged || (info.kind == ValueKind::Local && !isHeld(info, stage)))
      continue;
    results.push_back(uniform(use.get(), stage, builder));
    shardings.push_back(getRequired(use));
    bindings.push_back({state, update.getResultAttr(i, kOutput)});
  }
  auto ret = func::ReturnOp::create(builder, update.getLoc(), results);
  ret->setAttr(kIn, builder.getArrayAttr(shardings));
  func.setFunctionType(
      builder.getFunctionType(func.getArgumentTypes(), ValueRange(results).getTypes()));
  SmallVector<NamedAttrList> attributes(bindings.size());
  for (auto [list, binding] : llvm::zip(attributes, bindings)) {
    if (binding.first)
      bind(list, binding.first, stage);
    else
      list.set(kOutput, binding.second);
  }
  setResultAttributes(func, attributes);
}

void UpdateSplitter::write(int64_t stage) {
  values.clear();
  totals.clear();
  SmallVector<BlockArgument> args;
  SmallVector<Type> types;
  for (BlockArgument arg : update.getArguments())
    if (infos[arg].kind != ValueKind::Local || isHeld(infos[arg], stage)) {
      args.push_back(arg);
      types.push_back(typeOf(arg, stage));
    }
  func::FuncOp func = makeProcedure(split, "update", stage, types, update.getLoc());
  OpBuilder builder = OpBuilder::atBlockEnd(&func.getBody().front());
  SmallVector<NamedAttrList> attributes(args.size());
  for (auto [i, arg] : llvm::enumerate(args)) {
    values[arg] = func.getArgument(i);
    func.getArgument(i).setLoc(arg.getLoc());
    attributes[i].set(kSharding, getSharding(arg));
    if (Attribute state = update.getArgAttr(arg.getArgNumber(), kState))
      bind(attributes[i], state, stage);
    else if (Attribute scalar = update.getArgAttr(arg.getArgNumber(), kScalar))
      attributes[i].set(kScalar, scalar);
  }
  setArgumentAttributes(func, attributes);
  for (BlockArgument arg : args) {
    auto name = update.getArgAttrOfType<FlatSymbolRefAttr>(arg.getArgNumber(), kState);
    auto state = name ? split.symbols.lookup<graph::StateOp>(name.getAttr()) : graph::StateOp();
    bool reducedFirst = llvm::any_of(arg.getUsers(), [](Operation *op) { return isa<ReshardOp>(op); });
    if (state && state.getRole() == graph::Role::accumulator && !reducedFirst)
      sumOverHolders(arg, stage, builder);
  }
  for (Operation &op : update.getBody().front().without_terminator())
    writeOp(op, stage, builder);
  writeReturn(func, stage, builder);
  removeDeadOps(func);
  removeUnusedArguments(func);
}

LogicalResult UpdateSplitter::run() {
  Operation *end = update.getBody().front().getTerminator();
  for (unsigned i = 0; i < update.getNumResults(); ++i)
    if (auto name = update.getResultAttrOfType<StringAttr>(i, kOutput))
      if (name.getValue() == "skipped")
        skipped = end->getOperand(i);
  classifyArguments();
  for (Operation &op : update.getBody().front().without_terminator())
    if (failed(classify(op)))
      return failure();
  for (int64_t stage = 0; stage < split.stagesOfMesh; ++stage)
    write(stage);
  return success();
}

LogicalResult llmc::splitUpdate(func::FuncOp update, StageSplit &split) {
  return UpdateSplitter(update, split).run();
}
