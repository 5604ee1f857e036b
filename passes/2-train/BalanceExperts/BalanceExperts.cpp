// Adds what balances the experts of each router. Both ways are values of the model, so that gradients, layers and
// meshes treat them as all others: layers carry their sum, which is a result of the function.
#include "passes/2-train/ForwardSums.h"
#include "passes/2-train/Passes.h"

#include "dialects/graph/Build.h"
#include "dialects/graph/GraphAttrs.h"
#include "dialects/graph/Repeat.h"

namespace llmc {
#define GEN_PASS_DEF_BALANCEEXPERTS
#include "passes/2-train/Passes.h.inc"

using namespace mlir;
using namespace graph;

namespace {

// Is added to the sum of sigmoids by which they are divided, as models do where they weigh experts.
constexpr double kLeastSum = 1e-20;

// Returns the scores of a router, which sum to 1 over the experts.
Value normalised(Build &b, Value scores) {
  Operation *made = scores.getDefiningOp();
  if (isa_and_nonnull<SoftmaxOp>(made))
    return scores;
  if (!isa_and_nonnull<SigmoidOp>(made))
    return SoftmaxOp::create(b.builder, b.loc, scores.getType(), scores);
  int64_t dim = typeOf(scores).getRank() - 1;
  Value sum = b.reduce(scores, ReduceKind::sum, {dim});
  sum = b.add(sum, b.constant(kLeastSum, elementOf(sum)));
  SmallVector<int64_t> column(shapeOf(sum));
  column.push_back(1);
  return b.div(scores, b.reshape(sum, column));
}

// Returns how many tokens of each row choose each expert, [batch, experts]. Marks a token's experts choice by
// choice: the marks of all choices at once would be as many times larger.
Value countTokens(Build &b, RouteOp op) {
  ArrayRef<int64_t> shape = shapeOf(op.getScores());
  auto marks = RankedTensorType::get(shape, b.builder.getF32Type());
  auto ids = RankedTensorType::get(shape.drop_back(), b.builder.getF32Type());
  Value ones = ConstantOp::create(b.builder, b.loc, ids, DenseElementsAttr::get(ids, b.builder.getF32FloatAttr(1)));
  Value sum;
  for (int64_t choice = 0; choice < shapeOf(op.getRoutes()).back(); ++choice) {
    Value own = b.reshape(b.slice(op.getRoutes(), 2, choice, choice + 1), ids.getShape());
    Value hot = OneHotOp::create(b.builder, b.loc, marks, own, ones, /*offset=*/Value());
    sum = sum ? b.add(sum, hot) : hot;
  }
  return b.reduce(sum, ReduceKind::sum, {1});
}

struct BalanceExperts : impl::BalanceExpertsBase<BalanceExperts> {
  using BalanceExpertsBase::BalanceExpertsBase;

  void runOnOperation() override {
    auto forward = getOperation().lookupSymbol<func::FuncOp>("forward");
    if (!forward || forward.isExternal()) {
      getOperation().emitError("needs a function @forward with a body, found none; raise the model first");
      return signalPassFailure();
    }
    SmallVector<RouteOp> routers;
    forward.walk([&](RouteOp op) {
      if (op.getMixture())
        routers.push_back(op);
    });
    bool ok = true;
    for (RouteOp op : routers) {
      ok &= auxLoss <= 0 || succeeded(checkRows(op));
      ok &= biasRate <= 0 || succeeded(markBias(forward, op));
    }
    if (!ok)
      return signalPassFailure();
    SmallVector<Value> losses, choices;
    for (RouteOp op : routers) {
      OpBuilder builder(op->getContext());
      builder.setInsertionPointAfter(op);
      Build b(builder, op.getLoc());
      if (auxLoss > 0)
        losses.push_back(lossOf(b, op));
      if (biasRate > 0)
        choices.push_back(biasedChoices(b, op));
      ++numRouters;
    }
    if (!losses.empty())
      train::addOutput(forward, train::addOverLayers(forward, losses), kAuxiliaryLoss);
    // Serves as what is differentiated alone, so that layers need not pass it on.
    if (!choices.empty())
      train::addOutput(forward, train::addOverLayers(forward, choices, train::SumOver::stacked), kBiasedChoices);
  }

  LogicalResult checkRows(RouteOp op) {
    if (shapeOf(op.getScores()).size() == 3)
      return success();
    return op.emitError("B1: scores have type ")
           << op.getScores().getType() << ", expected [batch, tokens, experts]: the auxiliary loss is one of "
           << "each row of tokens; take a config.json, or a file whose router keeps rows apart";
  }

  // Marks the parameter that is the bias.
  LogicalResult markBias(func::FuncOp forward, RouteOp op) {
    Value bias = op.getBias();
    for (auto arg = dyn_cast_or_null<BlockArgument>(bias); arg; arg = dyn_cast<BlockArgument>(bias)) {
      auto repeat = dyn_cast<RepeatOp>(arg.getOwner()->getParentOp());
      if (!repeat)
        break;
      bias = repeat->getOperand(arg.getArgNumber());
    }
    auto arg = dyn_cast_or_null<BlockArgument>(bias);
    auto name = arg ? forward.getArgAttrOfType<FlatSymbolRefAttr>(arg.getArgNumber(), graph::kState) : FlatSymbolRefAttr();
    auto state = name ? getOperation().lookupSymbol<StateOp>(name.getValue()) : StateOp();
    if (!state || state.getRole() != Role::parameter)
      return op.emitError("B2: has ") << (bias ? "a bias that is no parameter" : "no bias")
                                      << ", expected one that training can move";
    state->setAttr(kBiasRate, Builder(op.getContext()).getF64FloatAttr(biasRate));
    return success();
  }

  // Returns the auxiliary loss of each row of tokens at one router, [batch].
  Value lossOf(Build &b, RouteOp op) {
    ArrayRef<int64_t> shape = shapeOf(op.getScores());
    double tokens = double(shape[1]), experts = double(shape[2]);
    double choices = double(shapeOf(op.getRoutes()).back());
    Value scores = b.reduce(normalised(b, op.getScores()), ReduceKind::sum, {1});
    Value product = b.mul(scores, b.cast(countTokens(b, op), elementOf(scores)));
    return b.scale(b.reduce(product, ReduceKind::sum, {1}), auxLoss * experts / (choices * tokens * tokens));
  }

  // Returns the sum of the biases of all choices of a router. Differentiating the lookup counts these.
  static Value biasedChoices(Build &b, RouteOp op) {
    auto type = RankedTensorType::get(shapeOf(op.getRoutes()), elementOf(op.getBias()));
    Value chosen = GatherOp::create(b.builder, b.loc, type, op.getBias(), op.getRoutes(), /*offset=*/Value());
    return b.reduce(chosen, ReduceKind::sum, llvm::to_vector(llvm::seq<int64_t>(type.getRank())));
  }
};

} // namespace
} // namespace llmc
