// Derives edits of element types: what a pass that decides types, or moves casts, might get wrong.
#include "dialects/graph/Build.h"
#include "dialects/parallel/Annotations.h"
#include "dialects/parallel/Collectives.h"
#include "lib/verify/mutation/IrEdits.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace llmc::graph;

namespace llmc::verify {

namespace {

// Returns the element type of the module's low parameters; null if it has none.
Type lowTypeOf(Operation *op) {
  auto module = op->getParentOfType<ModuleOp>();
  for (auto state : module.getOps<StateOp>()) {
    Type element = cast<RankedTensorType>(state.getType()).getElementType();
    if (state.getRole() == Role::parameter && (element.isBF16() || element.isF16()))
      return element;
  }
  return {};
}

std::string textOf(Type type) { return type.isBF16() ? "bf16" : type.isF16() ? "f16" : "f32"; }

// Casts a value at the builder's place, with the sharding of `like` if the module has shardings.
Value castTo(OpBuilder &builder, Value value, Type element, Value like) {
  auto made = CastOp::create(builder, value.getLoc(), typeOf(value).clone(element), value);
  Operation *owner = like.getDefiningOp();
  bool isAnnotated = owner ? owner->hasAttr(parallel::kOut)
                           : like.getParentBlock()->getTerminator()->hasAttr(parallel::kIn);
  if (isAnnotated) {
    parallel::ShardingAttr sharding = parallel::getSharding(like);
    parallel::setRequired(made->getOpOperand(0), sharding);
    parallel::setSharding(made.getResult(), sharding);
  }
  return made.getResult();
}

// Rounds a result to the low type for all its readers.
void narrow(Operation *op, unsigned index, Type low) {
  Value value = op->getResult(index);
  OpBuilder builder(op->getContext());
  builder.setInsertionPointAfter(op);
  Value down = castTo(builder, value, low, value);
  Value up = castTo(builder, down, elementOf(value), value);
  value.replaceAllUsesExcept(up, down.getDefiningOp());
}

// Computes an op on operands and to a result in the low type, between values in f32.
void computeLow(Operation *op, Type low) {
  Value value = op->getResult(0);
  Type full = elementOf(value);
  OpBuilder builder(op);
  for (OpOperand &operand : op->getOpOperands())
    if (Value old = operand.get(); elementOf(old) == full)
      operand.set(castTo(builder, old, low, old));
  value.setType(typeOf(value).clone(low));
  builder.setInsertionPointAfter(op);
  Value up = castTo(builder, value, full, value);
  value.replaceAllUsesExcept(up, up.getDefiningOp());
}

// Gives the result of an op in f32 and rounds it for its readers; a collective moves f32.
void widen(Operation *op) {
  Value value = op->getResult(0);
  Type low = elementOf(value), full = Float32Type::get(op->getContext());
  OpBuilder builder(op);
  if (isa<parallel::CollectiveOpInterface>(op))
    op->setOperand(0, castTo(builder, op->getOperand(0), full, op->getOperand(0)));
  value.setType(typeOf(value).clone(full));
  builder.setInsertionPointAfter(op);
  Value down = castTo(builder, value, low, value);
  value.replaceAllUsesExcept(down, down.getDefiningOp());
}

// Casts what a function binds to a state to and from another type of it.
void rebind(func::FuncOp func, StringRef state, Type element) {
  auto isBound = [&](DictionaryAttr attrs) {
    auto symbol = attrs ? attrs.getAs<FlatSymbolRefAttr>(kState) : FlatSymbolRefAttr();
    return symbol && symbol.getValue() == state;
  };
  OpBuilder builder = OpBuilder::atBlockBegin(&func.front());
  for (unsigned i = 0; i < func.getNumArguments(); ++i) {
    Value argument = func.getArgument(i);
    if (!isBound(func.getArgAttrDict(i)))
      continue;
    Type before = elementOf(argument);
    argument.setType(typeOf(argument).clone(element));
    Value same = castTo(builder, argument, before, argument);
    argument.replaceAllUsesExcept(same, same.getDefiningOp());
  }
  Operation *end = func.front().getTerminator();
  builder.setInsertionPoint(end);
  for (unsigned i = 0; i < func.getNumResults(); ++i)
    if (Value value = end->getOperand(i); isBound(func.getResultAttrDict(i)))
      end->setOperand(i, castTo(builder, value, element, value));
  func.setFunctionType(builder.getFunctionType(func.front().getArgumentTypes(),
                                               end->getOperandTypes()));
}

void retype(StateOp state, Type element) {
  auto type = cast<RankedTensorType>(state.getType());
  state.setType(type.clone(element));
  for (auto func : state->getParentOfType<ModuleOp>().getOps<func::FuncOp>())
    if (!func.isExternal())
      rebind(func, state.getSymName(), element);
}

} // namespace

void addTypeEdits(Operation *op, std::vector<IrEdit> &edits) {
  Type low = lowTypeOf(op);
  if (!low)
    return;
  auto add = [&](std::string change, std::function<void(Operation *)> rewire) {
    edits.push_back({"types", std::move(change), {}, {}, std::move(rewire)});
  };
  if (auto state = dyn_cast<StateOp>(op)) {
    Type element = cast<RankedTensorType>(state.getType()).getElementType();
    Type other = element == low ? Type(Float32Type::get(op->getContext())) : low;
    if (element.isF32() || element == low)
      add("in " + textOf(other), [other](Operation *op) { retype(cast<StateOp>(op), other); });
    return;
  }
  if (isa<GraphOpInterface>(op) && op->getNumRegions() == 0)
    for (OpResult result : op->getResults())
      if (elementOf(result).isF32() && !result.use_empty() && !isa<ConstantOp>(op))
        add("result " + std::to_string(result.getResultNumber()) + " through " + textOf(low),
            [r = result.getResultNumber(), low](Operation *op) { narrow(op, r, low); });
  bool isProduct = isa<MatmulOp, GroupedMatmulOp, GroupedOuterOp>(op);
  bool isSource = isProduct || isa<ReduceOp, ScatterAddOp, LayerNormGradScaleOp, RmsNormGradScaleOp>(op);
  if ((isSource || op->hasTrait<graph::Broadcasting>()) && elementOf(op->getResult(0)).isF32())
    add("in " + textOf(low), [low](Operation *op) { computeLow(op, low); });
  if ((isProduct || isa<parallel::CollectiveOpInterface>(op)) && elementOf(op->getResult(0)) == low)
    add("in f32", widen);
}

} // namespace llmc::verify
