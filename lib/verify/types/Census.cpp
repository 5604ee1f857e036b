// Visits states, functions and ops; each rule looks at what it is about.
#include "lib/verify/types/Census.h"

#include "dialects/graph/Build.h"
#include "dialects/graph/GraphAttrs.h"
#include "dialects/parallel/Annotations.h"
#include "dialects/parallel/Collectives.h"
#include "dialects/parallel/Gradients.h"
#include "lib/verify/types/Kinds.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace llmc::graph;

namespace llmc::verify {

static Type typeOf(MLIRContext *context, Precision precision) {
  return precision == Precision::Bf16   ? Type(BFloat16Type::get(context))
         : precision == Precision::Fp16 ? Type(Float16Type::get(context))
                                        : Type(Float32Type::get(context));
}

namespace {

class Census {
public:
  Census(ModuleOp module, const CompileOptions &options)
      : module(module), kinds(module), low(typeOf(module.getContext(), options.precision.value_or(Precision::Fp32))),
        gradient(typeOf(module.getContext(), options.gradDtype)),
        reduced(typeOf(module.getContext(), options.reduceDtype.value_or(options.gradDtype))),
        full(typeOf(module.getContext(), Precision::Fp32)) {}

  std::vector<TypeFault> run();

private:
  void add(const char *rule, Operation *op, StringRef what, Type got, StringRef expected);
  bool isLow(Value value) const { return elementOf(value) == low; }
  bool isFull(Value value) const { return elementOf(value) == full; }
  // Returns whether a value in f32 may be kept or moved beyond a kernel.
  bool mayBeFull(Value value);
  // Returns whether a value holds fewer bits than accumulators do.
  bool isNarrow(Value value) const {
    return isFloat(value) &&
           elementOf(value).getIntOrFloatBitWidth() < gradient.getIntOrFloatBitWidth();
  }

  void checkState(StateOp state);
  void checkPassages(func::FuncOp func);
  void checkCarried(RepeatOp repeat);
  void checkProduct(Operation *op);
  void checkSums(Operation *op);
  void checkMoved(Operation *op);
  bool addsReplicas(parallel::CollectiveOpInterface op);
  void checkCast(CastOp op);
  void checkUpdate(Operation *op);
  bool isWidened(Value value, bool &any);
  bool isStored(Value value, bool &any);

  ModuleOp module;
  ValueKinds kinds;
  Type low, gradient, reduced, full;
  std::vector<TypeFault> faults;
};

} // namespace

void Census::add(const char *rule, Operation *op, StringRef what, Type got, StringRef expected) {
  std::string text;
  llvm::raw_string_ostream out(text);
  if (auto func = op->getParentOfType<func::FuncOp>())
    out << "@" << func.getSymName() << ": ";
  if (auto state = dyn_cast<StateOp>(op))
    out << "@" << state.getSymName();
  else
    out << op->getName();
  out << ": " << what << " is " << got << ", expected " << expected;
  faults.push_back({rule, out.str()});
}

static std::string textOf(Type type) {
  std::string text;
  llvm::raw_string_ostream(text) << type;
  return text;
}

// Returns whether a state is the bias of a router that counts of tokens move, or belongs to one.
static bool isMovedByCounts(StateOp state) {
  auto of = state.getOf() ? SymbolTable::lookupNearestSymbolFrom<StateOp>(state, state.getOfAttr()) : state;
  return of && of->hasAttr(kBiasRate);
}

// Returns whether a value is an argument that is bound to such a state.
static bool isBoundToCounts(Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  auto func = argument ? dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp()) : func::FuncOp();
  auto name = func ? func.getArgAttrOfType<FlatSymbolRefAttr>(argument.getArgNumber(), kState) : FlatSymbolRefAttr();
  auto state = name ? SymbolTable::lookupNearestSymbolFrom<StateOp>(func, name) : StateOp();
  return state && isMovedByCounts(state);
}

//===-- States ----------------------------------------------------------------===//

void Census::checkState(StateOp state) {
  Type got = cast<RankedTensorType>(state.getType()).getElementType();
  if (!got.isFloat() || got.isF64())
    return;
  // The step's own sums are scalars; gradients of a flat bucket are none.
  bool isSum = state.getRole() == Role::accumulator && !state.getOf() &&
               cast<RankedTensorType>(state.getType()).getRank() == 0;
  // The bias of a router and the counts that move it are not rounded (graph.bias_rate).
  bool counts = isMovedByCounts(state);
  Type expected = counts                                             ? full
                  : state.getRole() == Role::parameter               ? low
                  : state.getRole() == Role::accumulator && !isSum ? gradient
                                                                   : full;
  if (got != expected)
    add("states", state, stringifyEnum(state.getRole()), got, textOf(expected));
}

//===-- What outlives a kernel --------------------------------------------------===//

bool Census::mayBeFull(Value value) {
  return kinds.of(value) != ValueKind::Activation || kinds.endsInAccumulator(value, true);
}

// Returns the op that computes a value, in the layers that yield it.
static Operation *originOf(Value value) {
  while (auto result = dyn_cast<OpResult>(value)) {
    auto repeat = dyn_cast<RepeatOp>(result.getOwner());
    if (!repeat)
      return result.getOwner();
    value = repeat.getBlock().getTerminator()->getOperand(result.getResultNumber());
  }
  return value.getParentBlock()->getTerminator();
}

void Census::checkPassages(func::FuncOp func) {
  Operation *end = func.front().getTerminator();
  for (unsigned i = 0; i < func.getNumResults(); ++i) {
    Value value = end->getOperand(i);
    bool isSent = func.getResultAttr(i, parallel::kStageBoundary) != nullptr;
    bool isKept = func.getResultAttr(i, parallel::kResidual) != nullptr;
    bool isOfRows = cast<RankedTensorType>(value.getType()).getRank() < 2; // a loss of each row, or its cotangent
    if ((isSent || isKept) && isFull(value) && !isOfRows && !mayBeFull(value))
      add("kept", originOf(value), isSent ? "an activation that is sent" : "an activation that is kept",
          value.getType(), textOf(low));
  }
}

void Census::checkCarried(RepeatOp repeat) {
  Operation *yield = repeat.getBlock().getTerminator();
  for (BlockArgument argument : repeat.getCarriedArgs()) {
    // Leaves out values that layers pass on as they are, as the cotangent of a sum: no layer makes them.
    bool isPassed = yield->getOperand(argument.getArgNumber()) == argument;
    if (!isPassed && isFull(argument) && !mayBeFull(argument))
      add("kept", repeat, "what layers carry", full, textOf(low));
  }
}

//===-- Arithmetic --------------------------------------------------------------===//

void Census::checkProduct(Operation *op) {
  Value result = op->getResult(0);
  if (elementOf(result).isF64())
    return;
  for (Value operand : op->getOperands().take_front(2)) // routes of a grouped one are numbers
    if (!isLow(operand))
      add("products", op, "an operand", elementOf(operand), textOf(low));
  bool isGradient = kinds.endsInAccumulator(result);
  Type expected = isGradient ? gradient : low;
  if (elementOf(result) != expected)
    add("products", op, isGradient ? "a gradient" : "the result", elementOf(result), textOf(expected));
}

void Census::checkSums(Operation *op) {
  if (isa<LayerNormOp, RmsNormOp, AttentionOp>(op))
    for (OpResult result : op->getResults().drop_front())
      if (isLow(result))
        add("sums", op, "a statistic", low, "f32");
  auto reduce = dyn_cast<ReduceOp>(op);
  bool isForward = reduce && !op->hasAttr(kBackward);
  auto func = op->getParentOfType<func::FuncOp>();
  isForward &= !func.getSymName().starts_with("backward");
  if (isForward && reduce.getKind() != ReduceKind::max && isLow(reduce.getResult()))
    add("sums", op, "a sum", low, "f32");
  if (isa<ReduceOp, ScatterAddOp, LayerNormGradScaleOp, RmsNormGradScaleOp>(op) &&
      isNarrow(op->getResult(0)) && kinds.endsInAccumulator(op->getResult(0)))
    add("sums", op, "a gradient", elementOf(op->getResult(0)), textOf(gradient));
}

//===-- Collectives ---------------------------------------------------------------===//

// Returns what a value was before it was moved and cast, in the layers from which it is stacked and
// which slice it.
static Value beforeMovements(Value value) {
  while (true) {
    auto argument = dyn_cast<BlockArgument>(value);
    auto layers = argument ? dyn_cast<RepeatOp>(argument.getOwner()->getParentOp()) : RepeatOp();
    Operation *op = value.getDefiningOp();
    if (layers && argument.getArgNumber() >= layers.getCarried().size())
      value = layers->getOperand(argument.getArgNumber());
    else if (op && (isMovement(op) || isa<CastOp, parallel::CollectiveOpInterface>(op)))
      value = op->getOperand(0);
    else if (auto repeat = dyn_cast_or_null<RepeatOp>(op))
      value = repeat.getBlock().getTerminator()->getOperand(cast<OpResult>(value).getResultNumber());
    else
      return value;
  }
}

// Returns whether a collective adds the gradients of data-parallel ranks.
bool Census::addsReplicas(parallel::CollectiveOpInterface op) {
  Value value = op->getOperand(0);
  auto axes = op->getAttrOfType<ArrayAttr>("axes");
  if (auto scatter = dyn_cast<parallel::ReduceScatterOp>(*op))
    return parallel::scattersGradients(scatter);
  return axes && parallel::areOverReplicas(op, axes) && isa<parallel::AllReduceOp>(op) &&
         kinds.stateOf(beforeMovements(value)) == Role::accumulator;
}

void Census::checkMoved(Operation *op) {
  auto collective = dyn_cast<parallel::CollectiveOpInterface>(op);
  Value value = collective ? op->getOperand(0) : Value();
  if (!value || !collective.communicates() || !isFloat(value) || elementOf(value).isF64())
    return;
  if (addsReplicas(collective)) {
    if (elementOf(value) != (isBoundToCounts(beforeMovements(value)) ? full : reduced))
      add("moved", op, "a gradient", elementOf(value), textOf(reduced));
    return;
  }
  if (low == full)
    return;
  if (isFull(value) && !mayBeFull(value))
    add("moved", op, "an activation", full, textOf(low));
  if (isNarrow(value) && kinds.endsInAccumulator(value))
    add("moved", op, "a gradient", elementOf(value), textOf(gradient));
}

//===-- Casts ---------------------------------------------------------------------===//

// Returns whether an op computes with nothing but numbers that were just narrowed, and constants.
static bool readsNarrowed(Operation *op) {
  return op->hasTrait<graph::Broadcasting>() && llvm::all_of(op->getOperands(), [](Value value) {
    while (value.getDefiningOp() && isMovement(value.getDefiningOp()))
      value = value.getDefiningOp()->getOperand(0);
    return !isFloat(value) || value.getDefiningOp<CastOp>() || value.getDefiningOp<ConstantOp>();
  });
}

// Returns whether every reader of a value widens it, at once or after arithmetic in the low type that
// nothing asks for; sets `any` if one does.
bool Census::isWidened(Value value, bool &any) {
  return llvm::all_of(value.getUses(), [&](OpOperand &use) {
    Operation *op = use.getOwner();
    if (auto cast = dyn_cast<CastOp>(op); cast && isFloat(cast.getResult()))
      return any = elementOf(cast.getResult()).getIntOrFloatBitWidth() > 16;
    if (auto repeat = dyn_cast<RepeatOp>(op))
      return use.getOperandNumber() >= repeat.getCarried().size() &&
             isWidened(repeat.getBlock().getArgument(use.getOperandNumber()), any);
    return (isMovement(op) || readsNarrowed(op)) && isWidened(op->getResult(0), any);
  });
}

void Census::checkCast(CastOp op) {
  bool any = false, isNarrowing = isFull(op.getOperand()) && isFloat(op.getResult()) &&
                                  elementOf(op.getResult()).getIntOrFloatBitWidth() < 32;
  if (isNarrowing && kinds.of(op.getOperand()) != ValueKind::Number &&
      isWidened(op.getResult(), any) && any)
    add("casts", op, "what its readers widen again", elementOf(op.getResult()), "f32");
}

//===-- The update ------------------------------------------------------------------===//

// Returns whether a value in a low type is stored, or moved between ranks, and read beside that only
// as what was stored; sets `any` if it is.
bool Census::isStored(Value value, bool &any) {
  return llvm::all_of(value.getUses(), [&](OpOperand &use) {
    Operation *op = use.getOwner();
    unsigned index = use.getOperandNumber();
    if (isa<func::ReturnOp, parallel::CollectiveOpInterface>(op))
      return any = true;
    if (auto repeat = dyn_cast<RepeatOp>(op))
      return isStored(repeat.getBlock().getArgument(index), any);
    if (isa<YieldOp>(op))
      return isStored(op->getParentOp()->getResult(index), any);
    auto cast = dyn_cast<CastOp>(op);
    return (cast && isFull(cast.getResult())) ||
           (isMovement(op) && isStored(op->getResult(0), any));
  });
}

void Census::checkUpdate(Operation *op) {
  bool any = false;
  bool mayBeLow = isMovement(op) || isa<parallel::CollectiveOpInterface>(op) ||
                  (isa<CastOp>(op) && isStored(op->getResult(0), any) && any);
  for (Value result : op->getResults())
    if (isFloat(result) && elementOf(result).getIntOrFloatBitWidth() < 32 && !mayBeLow)
      add("update", op, "a result", elementOf(result), "f32");
}

//===-- All -------------------------------------------------------------------------===//

std::vector<TypeFault> Census::run() {
  if (low == full) { // Only what ranks add may have another type.
    module.walk([&](Operation *op) { checkMoved(op); });
    return std::move(faults);
  }
  for (auto state : module.getOps<StateOp>())
    checkState(state);
  for (auto func : module.getOps<func::FuncOp>()) {
    if (func.isExternal())
      continue;
    checkPassages(func);
    bool isUpdate = func.getSymName().starts_with("update");
    func.walk([&](Operation *op) {
      if (auto repeat = dyn_cast<RepeatOp>(op))
        return checkCarried(repeat);
      if (isa<MatmulOp, GroupedMatmulOp, GroupedOuterOp>(op))
        checkProduct(op);
      if (auto cast = dyn_cast<CastOp>(op))
        checkCast(cast);
      checkMoved(op);
      if (!isa<GraphOpInterface>(op))
        return;
      checkSums(op);
      if (isUpdate)
        checkUpdate(op);
    });
  }
  return std::move(faults);
}

std::vector<TypeFault> censusOfTypes(ModuleOp module, const CompileOptions &options) {
  return Census(module, options).run();
}

} // namespace llmc::verify
