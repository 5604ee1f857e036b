// Follows values backward to what they are computed from, and forward to where they end.
#include "lib/verify/types/Kinds.h"

#include "dialects/graph/Build.h"
#include "dialects/parallel/Annotations.h"
#include "dialects/parallel/Collectives.h"

using namespace mlir;
using namespace llmc::graph;

namespace llmc::verify {

bool isMovement(Operation *op) {
  return isa<ReshapeOp, TransposeOp, BroadcastOp, SliceOp, PadOp, ConcatOp, MaskTailOp>(op);
}

// Returns whether an op keeps the sum of its terms: what it is given is part of what it gives.
static bool isLinear(Operation *op) {
  auto reduce = dyn_cast<ReduceOp>(op);
  bool isSum = reduce && reduce.getKind() == ReduceKind::sum;
  return isSum || isMovement(op) || isa<AddOp, CastOp, parallel::CollectiveOpInterface>(op);
}

std::optional<ValueKinds::Passage> ValueKinds::passageOf(func::FuncOp func, DictionaryAttr attrs,
                                                         bool leaves) {
  auto procedure = func->getAttrOfType<StringAttr>(parallel::kProcedure);
  if (!attrs || !procedure || !func->hasAttr(parallel::kStage))
    return std::nullopt;
  int64_t stage = parallel::getVirtualStage(func);
  if (auto number = attrs.getAs<IntegerAttr>(parallel::kResidual))
    return Passage{"kept", stage, number.getInt()};
  auto number = attrs.getAs<IntegerAttr>(parallel::kStageBoundary);
  if (!number)
    return std::nullopt;
  int64_t further = !leaves ? 0 : procedure.getValue() == "forward" ? 1 : -1;
  return Passage{procedure.str(), stage + further, number.getInt()};
}

ValueKinds::ValueKinds(ModuleOp module) : module(module), symbols(module) {
  for (auto func : module.getOps<func::FuncOp>()) {
    if (func.isExternal())
      continue;
    Operation *end = func.front().getTerminator();
    for (unsigned i = 0; i < func.getNumResults(); ++i)
      if (auto passage = passageOf(func, func.getResultAttrDict(i), true))
        left[*passage] = end->getOperand(i);
    for (unsigned i = 0; i < func.getNumArguments(); ++i)
      if (auto passage = passageOf(func, func.getArgAttrDict(i), false))
        entered[*passage].push_back(func.getArgument(i));
  }
}

// Returns the state that an argument or a result is bound to, of a flat tensor that of the first part,
// since all have one role; null if none.
static StateOp boundState(const SymbolTable &symbols, DictionaryAttr attrs) {
  if (auto flat = attrs ? attrs.getAs<parallel::FlatAttr>(parallel::kFlat) : parallel::FlatAttr())
    return symbols.lookup<StateOp>(flat.getFirstState());
  auto symbol = attrs ? attrs.getAs<FlatSymbolRefAttr>(kState) : FlatSymbolRefAttr();
  return symbol ? symbols.lookup<StateOp>(symbol.getValue()) : StateOp();
}

std::optional<Role> ValueKinds::stateOf(Value value) const {
  auto argument = dyn_cast<BlockArgument>(value);
  auto func = argument ? dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp()) : func::FuncOp();
  StateOp state =
      func ? boundState(symbols, func.getArgAttrDict(argument.getArgNumber())) : StateOp();
  if (!state || (state.getRole() == Role::accumulator && !state.getOf()))
    return std::nullopt;
  return state.getRole();
}

//===-- What a value is -------------------------------------------------------===//

ValueKind ValueKinds::of(Value value) {
  auto found = known.find(value);
  if (found != known.end())
    return found->second;
  known[value] = ValueKind::Activation; // what a loop of layers carries, until it is known better
  auto result = dyn_cast<OpResult>(value);
  ValueKind kind = result ? ofResult(result) : ofArgument(cast<BlockArgument>(value));
  return known[value] = kind;
}

ValueKind ValueKinds::ofArgument(BlockArgument argument) {
  unsigned index = argument.getArgNumber();
  if (auto repeat = dyn_cast<RepeatOp>(argument.getOwner()->getParentOp())) {
    ValueKind kind = of(repeat->getOperand(index));
    if (index >= repeat.getCarried().size() || kind > ValueKind::Weight)
      return kind;
    // Takes what starts as a number, and to which each layer adds, for a sum over the layers.
    Value next = repeat.getBlock().getTerminator()->getOperand(index);
    auto sum = next.getDefiningOp<AddOp>();
    bool isSum = sum && llvm::is_contained(sum->getOperands(), argument);
    return isSum && kind == ValueKind::Number ? ValueKind::Statistic : ValueKind::Activation;
  }
  auto func = cast<func::FuncOp>(argument.getOwner()->getParentOp());
  DictionaryAttr attrs = func.getArgAttrDict(index);
  if (StateOp state = boundState(symbols, attrs))
    return state.getRole() == Role::parameter ? ValueKind::Weight : ValueKind::State;
  if (auto passage = passageOf(func, attrs, false); passage && left.count(*passage))
    return of(left[*passage]);
  return ValueKind::Table;
}

ValueKind ValueKinds::ofResult(OpResult result) {
  Operation *op = result.getOwner();
  unsigned index = result.getResultNumber();
  if (auto repeat = dyn_cast<RepeatOp>(op))
    return of(repeat.getBlock().getTerminator()->getOperand(index));
  if (auto constant = dyn_cast<ConstantOp>(op))
    return isa<SplatElementsAttr>(constant.getValue()) ? ValueKind::Number : ValueKind::Table;
  if (isa<LayerNormOp, RmsNormOp, AttentionOp>(op))
    return index ? ValueKind::Statistic : ValueKind::Activation;
  if (isa<MatmulOp, GroupedMatmulOp, GroupedOuterOp, SoftmaxOp, RotaryOp, GeluOp>(op))
    return ValueKind::Activation;
  ValueKind kind = ofOperands(op);
  if (isa<GatherOp, ScatterAddOp>(op) && kind == ValueKind::Weight)
    return llvm::any_of(op->getOperands(), [&](Value v) { return dependsOnInput(v); })
               ? ValueKind::Activation
               : kind;
  bool isSum = isa<ReduceOp, TakeAlongOp>(op);
  return isSum && kind >= ValueKind::Statistic ? ValueKind::Statistic : kind;
}

// Returns whether a value is computed from what the user feeds. No layer carries what looks up.
bool ValueKinds::dependsOnInput(Value value) {
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    unsigned index = argument.getArgNumber();
    Operation *parent = argument.getOwner()->getParentOp();
    if (auto repeat = dyn_cast<RepeatOp>(parent))
      return dependsOnInput(repeat->getOperand(index));
    auto func = cast<func::FuncOp>(parent);
    return !func.getArgAttr(index, kState) && !func.getArgAttr(index, parallel::kFlat);
  }
  Operation *op = value.getDefiningOp();
  return isa<RepeatOp>(op) ||
         llvm::any_of(op->getOperands(), [&](Value operand) { return dependsOnInput(operand); });
}

ValueKind ValueKinds::ofOperands(Operation *op) {
  ValueKind kind = op->getNumOperands() ? ValueKind::Number : ValueKind::Table;
  bool meets = false, isActive = false;
  for (Value operand : op->getOperands()) {
    if (!isFloat(operand)) {
      kind = std::max(kind, ValueKind::Table);
      continue;
    }
    ValueKind own = of(operand);
    kind = std::max(kind, own);
    isActive |= own == ValueKind::Activation || own == ValueKind::Weight;
    meets |= (own == ValueKind::Table || own == ValueKind::Statistic) && elementOf(operand).isF32();
  }
  // A weight on its own is arithmetic on weights, whatever table it meets.
  if (kind == ValueKind::Statistic && isActive)
    kind = ValueKind::Activation;
  return kind == ValueKind::Activation && meets ? ValueKind::Promoted : kind;
}

//===-- Where a value ends ----------------------------------------------------===//

bool ValueKinds::endsInAccumulator(Value value, bool scattered) {
  auto [entry, isNew] = ends[scattered].try_emplace(value, true); // true: what a loop carries round
  if (!isNew)
    return entry->second;
  bool all = !value.use_empty() && llvm::all_of(value.getUses(), [&](OpOperand &use) {
    return endsInAccumulator(use, scattered);
  });
  return ends[scattered][value] = all;
}

bool ValueKinds::endsInAccumulator(OpOperand &use, bool scattered) {
  Operation *op = use.getOwner();
  unsigned index = use.getOperandNumber();
  if (auto end = dyn_cast<func::ReturnOp>(op))
    return endsInAccumulator(end, index, scattered);
  if (isa<YieldOp>(op))
    return endsInAccumulator(op->getParentOp()->getResult(index), scattered);
  if (auto repeat = dyn_cast<RepeatOp>(op))
    return endsInAccumulator(repeat.getBlock().getArgument(index), scattered);
  bool isTerm = isLinear(op) || (scattered && isa<ScatterAddOp>(op));
  return isTerm && endsInAccumulator(op->getResult(0), scattered);
}

bool ValueKinds::endsInAccumulator(func::ReturnOp op, unsigned index, bool scattered) {
  auto func = cast<func::FuncOp>(op->getParentOp());
  DictionaryAttr attrs = func.getResultAttrDict(index);
  if (StateOp state = boundState(symbols, attrs))
    return state.getRole() == Role::accumulator;
  auto passage = passageOf(func, attrs, true);
  auto found = passage ? entered.find(*passage) : entered.end();
  return found != entered.end() &&
         llvm::all_of(found->second, [&](Value value) { return endsInAccumulator(value, scattered); });
}

} // namespace llmc::verify
