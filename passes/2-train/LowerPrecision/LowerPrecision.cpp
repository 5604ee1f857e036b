// Decides the element types of a model in low precision: from the parameters on, op by op in
// program order, each by its own rule.
#include "dialects/graph/Build.h"
#include "dialects/graph/GraphAttrs.h"
#include "mlir/AsmParser/AsmParser.h"
#include "passes/2-train/Activity.h"
#include "passes/2-train/Passes.h"

using namespace mlir;
using namespace llmc;
using namespace llmc::graph;
using namespace llmc::train;

namespace llmc {
#define GEN_PASS_DEF_LOWERPRECISION
#include "passes/2-train/Passes.h.inc"
} // namespace llmc

namespace {

class LowerPrecision : public llmc::impl::LowerPrecisionBase<LowerPrecision> {
public:
  using LowerPrecisionBase::LowerPrecisionBase;

private:
  void runOnOperation() override;

  void lowerParameters(func::FuncOp forward);
  void lowerBlock(Block &block);
  void lowerOp(Operation *op);
  void lowerRepeat(RepeatOp repeat);
  void keepResults(func::FuncOp forward);
  void findSums(func::FuncOp forward);

  // Returns whether a value is a float that depends on a parameter; of these alone types change.
  bool isActive(Value value) const { return active.contains(value); }
  bool isFull(Value value) const { return elementOf(value).isF32(); }
  // Returns whether the pass decides the type of a value: f64 is the model's own wish.
  static bool isRetyped(Value value) {
    return isFloat(value) && elementOf(value).getIntOrFloatBitWidth() <= 32;
  }
  // Returns the type of the Common tensors of an op.
  Type commonType(Operation *op, const PrecisionRule &rule) const;
  // Returns `value` in another element type; one cast serves all readers of a value.
  Value inType(Value value, Type type);
  void setElement(Value value, Type type);

  Type low, full;
  ValueSet active;
  // Holds the values by which layers carry the auxiliary loss of routers, which has its final type.
  ValueSet sums;
  // Holds the floats that are computed from parameters and constants alone.
  ValueSet weights;
  DenseMap<std::pair<Value, Type>, Value> casts;
};

} // namespace

// Returns whether a value is the same number everywhere, which a kernel reads as it is.
static bool isNumber(Value value) {
  auto constant = value.getDefiningOp<ConstantOp>();
  auto data = constant ? dyn_cast<DenseElementsAttr>(constant.getValue()) : DenseElementsAttr();
  return data && data.isSplat();
}

void LowerPrecision::setElement(Value value, Type type) {
  if (elementOf(value) == type)
    return;
  value.setType(typeOf(value).clone(type));
  numLow += type == low;
}

Value LowerPrecision::inType(Value value, Type type) {
  if (elementOf(value) == type)
    return value;
  Value &cast = casts[{value, type}];
  if (!cast) {
    OpBuilder builder(value.getContext());
    builder.setInsertionPointAfterValue(value);
    cast = Build(builder, value.getLoc()).cast(value, type);
    if (isActive(value))
      active.insert(cast);
    if (weights.contains(value))
      weights.insert(cast);
    ++numCasts;
  }
  return cast;
}

//===-- Ops -----------------------------------------------------------------===//

Type LowerPrecision::commonType(Operation *op, const PrecisionRule &rule) const {
  // Keeps what layers add to low in the low type, though a statistic of theirs (shares of experts) has made it full.
  if (auto add = dyn_cast<AddOp>(op)) {
    Value a = add.getLhs(), b = add.getRhs();
    if (isActive(a) && isActive(b) && shapeOf(a) == shapeOf(b) && isFloat(a) && isFull(a) != isFull(b))
      return low;
  }
  bool onWeights = op->hasTrait<graph::Broadcasting>();
  for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
    if (!isFloat(operand) || rule.ofOperand(i) != Precision::Common)
      continue;
    if (isFull(operand) && !isNumber(operand))
      return full;
    onWeights &= weights.contains(operand) || isNumber(operand);
  }
  return onWeights ? full : low;
}

void LowerPrecision::lowerOp(Operation *op) {
  auto graphOp = dyn_cast<GraphOpInterface>(op);
  auto isOnWeights = [&](Value operand) {
    Operation *def = operand.getDefiningOp();
    return weights.contains(operand) || (def && def->getNumOperands() == 0);
  };
  if (!graphOp || llvm::none_of(op->getOperands(), [&](Value v) { return isActive(v); }))
    return;
  PrecisionRule rule = graphOp.getPrecisionRule();
  Type common = commonType(op, rule);
  auto typeBy = [&](Precision precision, Value value) {
    return precision == Precision::Common ? common
           : precision == Precision::Low  ? low
           : precision == Precision::Full ? full
           : isFull(value)                ? full
                                          : low; // a low type of the file is the low type
  };
  bool onWeights = llvm::all_of(op->getOperands(), isOnWeights);
  for (OpOperand &operand : op->getOpOperands()) {
    Precision precision = rule.ofOperand(operand.getOperandNumber());
    Value value = operand.get();
    if (isRetyped(value) && (isActive(value) || precision != Precision::Given))
      operand.set(inType(value, typeBy(precision, value)));
  }
  for (OpResult result : op->getResults()) {
    if (isRetyped(result))
      setElement(result, typeBy(rule.ofResult(result.getResultNumber()), result));
    if (isFloat(result) && onWeights)
      weights.insert(result);
  }
}

// Carries every float that depends on a parameter in the low type, but for sums.
void LowerPrecision::lowerRepeat(RepeatOp repeat) {
  ValueSet inside = activityInBody(repeat, active);
  active.insert(inside.begin(), inside.end());
  Block &block = repeat.getBlock();
  unsigned carried = repeat.getCarried().size();
  for (auto [i, argument] : llvm::enumerate(block.getArguments())) {
    OpOperand &operand = repeat->getOpOperand(i);
    if (!isActive(argument) || !isFloat(argument))
      continue;
    if (i < carried && isRetyped(argument) && !sums.contains(repeat->getResult(i)))
      operand.set(inType(operand.get(), low));
    setElement(argument, elementOf(operand.get()));
    if (weights.contains(operand.get()) && i >= carried)
      weights.insert(argument);
  }
  lowerBlock(block);
  Operation *yield = block.getTerminator();
  for (auto [i, result] : llvm::enumerate(repeat->getResults())) {
    OpOperand &yielded = yield->getOpOperand(i);
    if (i < carried && isFloat(result))
      yielded.set(inType(yielded.get(), elementOf(block.getArgument(i))));
    if (isFloat(result))
      setElement(result, elementOf(yielded.get()));
  }
}

void LowerPrecision::lowerBlock(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(block.without_terminator())) {
    if (auto repeat = dyn_cast<RepeatOp>(op))
      lowerRepeat(repeat);
    else
      lowerOp(&op);
  }
}

//===-- The function --------------------------------------------------------===//

void LowerPrecision::lowerParameters(func::FuncOp forward) {
  SymbolTable symbols(getOperation());
  for (unsigned i = 0; i < forward.getNumArguments(); ++i) {
    auto symbol = forward.getArgAttrOfType<FlatSymbolRefAttr>(i, graph::kState);
    auto state = symbol ? symbols.lookup<StateOp>(symbol.getValue()) : StateOp();
    Value argument = forward.getArgument(i);
    // Small steps add up in the bias of a router: it stays as it is, and needs no master.
    if (!state || state.getRole() != Role::parameter || !isRetyped(argument) || state->hasAttr(kBiasRate))
      continue;
    setElement(argument, low);
    state.setType(typeOf(argument));
    active.insert(argument);
    weights.insert(argument);
  }
}

void LowerPrecision::keepResults(func::FuncOp forward) {
  Operation *terminator = forward.getBody().front().getTerminator();
  for (auto [operand, type] : llvm::zip(terminator->getOpOperands(), forward.getResultTypes()))
    if (auto tensor = dyn_cast<RankedTensorType>(type); tensor && isActive(operand.get()))
      operand.set(inType(operand.get(), tensor.getElementType()));
  forward.setFunctionType(FunctionType::get(&getContext(),
                                            forward.getBody().front().getArgumentTypes(),
                                            forward.getResultTypes()));
}

// Follows the auxiliary loss back through the layers that add to it (BalanceExperts).
void LowerPrecision::findSums(func::FuncOp forward) {
  for (unsigned i = 0; i < forward.getNumResults(); ++i) {
    auto name = forward.getResultAttrOfType<StringAttr>(i, graph::kOutput);
    Value value = name && name == kAuxiliaryLoss ? forward.getBody().front().getTerminator()->getOperand(i) : Value();
    while (Operation *made = value ? value.getDefiningOp() : nullptr) {
      auto repeat = dyn_cast<RepeatOp>(made);
      if (repeat)
        sums.insert(value);
      value = repeat           ? repeat->getOperand(cast<OpResult>(value).getResultNumber())
              : isa<AddOp>(made) ? made->getOperand(0)
                                 : Value();
    }
  }
}

void LowerPrecision::runOnOperation() {
  Builder builder(&getContext());
  full = builder.getF32Type();
  low = parseType(element, &getContext());
  auto forward = getOperation().lookupSymbol<func::FuncOp>("forward");
  if (!forward || forward.isExternal()) {
    getOperation().emitError("needs a function @forward with a body, found none; "
                             "raise the model first");
    return signalPassFailure();
  }
  if (!low || !low.isFloat() || low.getIntOrFloatBitWidth() > 32) {
    getOperation().emitError("element is ") << element << ", expected f32, bf16 or f16";
    return signalPassFailure();
  }
  lowerParameters(forward);
  findSums(forward);
  Block &block = forward.getBody().front();
  spreadActivity(block, active);
  lowerBlock(block);
  keepResults(forward);
}
