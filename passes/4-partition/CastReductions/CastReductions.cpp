// Casts gradients to the type in which data-parallel ranks add them.
#include "passes/4-partition/Passes.h"

#include "dialects/graph/Build.h"
#include "dialects/graph/GraphAttrs.h"
#include "dialects/parallel/Annotations.h"
#include "dialects/parallel/Gradients.h"
#include "passes/4-partition/MapLayers.h"

namespace llmc {
#define GEN_PASS_DEF_CASTREDUCTIONS
#include "passes/4-partition/Passes.h.inc"
} // namespace llmc

using namespace mlir;
using namespace llmc;
using namespace llmc::parallel;

namespace {

struct CastReductions : llmc::impl::CastReductionsBase<CastReductions> {
  using CastReductionsBase::CastReductionsBase;
  void runOnOperation() override;

private:
  void runOnFunction(func::FuncOp func);
  void castScatter(ReduceScatterOp op);
  void castSum(AllReduceOp op, graph::StateOp accumulator);
  void castBack(Value sum, Value replaced, Type to);

  Type type; // in which gradients are added
};

} // namespace

// Returns the accumulator of a parameter's gradient that a function's argument is; null if it is none.
static graph::StateOp accumulatorOf(func::FuncOp func, Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  if (!argument || argument.getOwner() != &func.getBody().front())
    return {};
  auto name = func.getArgAttrOfType<FlatSymbolRefAttr>(argument.getArgNumber(), kState);
  auto state = name ? SymbolTable::lookupNearestSymbolFrom<graph::StateOp>(func, name) : graph::StateOp();
  if (!state || state.getRole() != graph::Role::accumulator || !state.getOf())
    return {};
  auto parameter = SymbolTable::lookupNearestSymbolFrom<graph::StateOp>(func, state.getOfAttr());
  return parameter && parameter->hasAttr(graph::kBiasRate) ? graph::StateOp() : state;
}

// Returns the result of the repeat around a value that stacks it, if nothing else uses it.
static OpResult stackOf(Value value) {
  auto yield = value.hasOneUse() ? dyn_cast<graph::YieldOp>(*value.user_begin()) : graph::YieldOp();
  auto repeat = yield ? dyn_cast<graph::RepeatOp>(yield->getParentOp()) : graph::RepeatOp();
  unsigned index = yield ? value.use_begin()->getOperandNumber() : 0;
  return repeat && index >= repeat.getCarried().size() ? repeat->getResult(index) : OpResult();
}

void CastReductions::castScatter(ReduceScatterOp op) {
  OpBuilder builder(op);
  Type before = graph::elementOf(op.getOperand());
  op->setOperand(0, graph::Build(builder, op.getLoc()).cast(op.getOperand(), type));
  Value result = op.getResult();
  result.setType(RankedTensorType::get(graph::shapeOf(result), type));
  // Parts of all layers are cast together, where whatever reads them does.
  if (OpResult stack = stackOf(result)) {
    stack.setType(RankedTensorType::get(graph::shapeOf(stack), type));
    result = stack;
  }
  castBack(result, result, before);
}

// Lets the users of `replaced` read `sum`, cast to type `to`; those that cast it to the type that it
// has read it as it is, so that a wide sum is not rounded between.
void CastReductions::castBack(Value sum, Value replaced, Type to) {
  SmallVector<OpOperand *> uses;
  for (OpOperand &use : replaced.getUses())
    uses.push_back(&use);
  Value cast;
  for (OpOperand *use : uses) {
    if (auto again = dyn_cast<graph::CastOp>(use->getOwner()); again && again.getType() == sum.getType()) {
      again.getResult().replaceAllUsesWith(sum);
      again->erase();
      continue;
    }
    if (!cast) {
      OpBuilder builder(sum.getContext());
      builder.setInsertionPointAfterValue(sum);
      cast = graph::Build(builder, sum.getLoc()).cast(sum, to);
    }
    use->set(cast);
  }
}

void CastReductions::castSum(AllReduceOp op, graph::StateOp accumulator) {
  OpBuilder builder(op);
  auto sum = [&](OpBuilder &inner, Value value) -> Value {
    Value narrow = graph::Build(inner, op.getLoc()).cast(value, type);
    auto made = AllReduceOp::create(inner, op.getLoc(), narrow.getType(), narrow, op.getAxes(),
                                    op.getKind(), DenseI64ArrayAttr());
    made->setAttr(kOrigin, op->getAttr(kOrigin));
    return made;
  };
  Value made = accumulator.getStacked() ? mapLayers(builder, op.getLoc(), op.getOperand(), sum)
                                        : sum(builder, op.getOperand());
  castBack(made, op.getResult(), graph::elementOf(op.getOperand()));
  op->erase();
}

void CastReductions::runOnFunction(func::FuncOp func) {
  auto procedure = func->getAttrOfType<StringAttr>(kProcedure);
  if (!procedure || procedure == "forward")
    return;
  SmallVector<ReduceScatterOp> scatters;
  SmallVector<AllReduceOp> sums;
  func.walk([&](Operation *op) {
    if (auto scatter = dyn_cast<ReduceScatterOp>(op); scatter && scattersGradients(scatter))
      scatters.push_back(scatter);
    else if (auto sum = dyn_cast<AllReduceOp>(op);
             sum && areOverReplicas(op, sum.getAxes()) && !sum.getMembers() &&
             accumulatorOf(func, sum.getOperand()))
      sums.push_back(sum);
  });
  for (ReduceScatterOp op : scatters)
    if (graph::elementOf(op.getOperand()) != type) {
      castScatter(op);
      ++numSums;
    }
  for (AllReduceOp op : sums)
    if (graph::elementOf(op.getOperand()) != type) {
      castSum(op, accumulatorOf(func, op.getOperand()));
      ++numSums;
    }
}

void CastReductions::runOnOperation() {
  if (element.empty())
    return;
  Builder builder(&getContext());
  type = element == "f32"    ? Type(builder.getF32Type())
         : element == "bf16" ? Type(builder.getBF16Type())
         : element == "f16"  ? Type(builder.getF16Type())
                             : Type();
  if (!type) {
    getOperation().emitError("G1: element is ") << element << ", expected f32, bf16 or f16";
    return signalPassFailure();
  }
  for (auto func : getOperation().getOps<func::FuncOp>())
    runOnFunction(func);
}
