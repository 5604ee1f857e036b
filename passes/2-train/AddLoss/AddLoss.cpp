// Turns @forward into the forward half of @micro: cross entropy, summed over
// the rows that count, and its cotangent of the logits.
#include "dialects/graph/Build.h"
#include "dialects/graph/GraphAttrs.h"
#include "passes/2-train/Passes.h"

using namespace mlir;
using namespace llmc;
using namespace llmc::graph;

namespace llmc {
#define GEN_PASS_DEF_ADDLOSS
#include "passes/2-train/Passes.h.inc"
} // namespace llmc

namespace {

constexpr double kIgnoredLabel = -100;

Location named(MLIRContext *context, StringRef name) {
  return NameLoc::get(StringAttr::get(context, name));
}

// Returns [i..., 1] from [i...]: the shape in which a row's scalar broadcasts to its row.
SmallVector<int64_t> columnShape(Value rows) {
  SmallVector<int64_t> shape(shapeOf(rows));
  shape.push_back(1);
  return shape;
}

struct Loss {
  Value loss;      // sum over the rows that count
  Value auxiliary; // sum of what balances experts, or null
  Value tokens;    // how many rows count
  Value weight;    // 1 for each row that counts, else 0
  Value cotangent; // of the logits
  Operation *lastForward;
};

// Builds the loss; `scale`, if there is one, multiplies the cotangent. The maximum shifts the
// exponent against overflow; it cancels in lse.
Loss buildLoss(OpBuilder &builder, Value logits, Value labels, Value scale) {
  MLIRContext *context = builder.getContext();
  Type element = elementOf(logits);
  Build b(builder, named(context, "loss"));
  int64_t vocabularyDim = typeOf(logits).getRank() - 1;
  Value max = b.reduce(logits, ReduceKind::max, {vocabularyDim});
  Value shifted = b.exp(b.sub(logits, b.reshape(max, columnShape(max))));
  Value sum = b.reduce(shifted, ReduceKind::sum, {vocabularyDim});
  Value lse = b.add(LogOp::create(builder, b.loc, sum), max);
  // An ignored label is outside the vocabulary: take_along gives 0 there. It has a kernel of its
  // own, which reads the logits as they are stored.
  auto widened = logits.getDefiningOp<CastOp>();
  Value stored = widened ? widened.getOperand() : logits;
  Value picked = b.cast(TakeAlongOp::create(builder, b.loc,
                                            typeOf(lse).clone(elementOf(stored)), stored, labels,
                                            /*offset=*/Value()),
                        element);
  Value ignored = b.constant(kIgnoredLabel, elementOf(labels));
  Value valid = b.compare(labels, ignored, Predicate::ne);
  Value rows = b.select(valid, b.sub(lse, picked), b.constant(0, element));
  SmallVector<int64_t> all = llvm::to_vector(llvm::seq<int64_t>(typeOf(rows).getRank()));
  Loss result;
  result.loss = b.reduce(rows, ReduceKind::sum, all);

  Build counter(builder, named(context, "token count"));
  Value weight = counter.cast(valid, element);
  result.tokens = counter.reduce(weight, ReduceKind::sum, all);
  result.weight = weight;
  result.lastForward = result.tokens.getDefiningOp();

  Value probability = b.exp(b.sub(logits, b.reshape(lse, columnShape(lse))));
  Value target = OneHotOp::create(builder, b.loc, typeOf(logits), labels, weight,
                                  /*offset=*/Value());
  result.cotangent =
      b.sub(b.mul(probability, b.reshape(weight, columnShape(weight))), target);
  if (scale)
    result.cotangent = b.mul(result.cotangent, scale);
  for (Operation *op = result.lastForward->getNextNode(); op && !op->hasTrait<OpTrait::IsTerminator>();
       op = op->getNextNode())
    op->setAttr(graph::kBackward, builder.getUnitAttr());
  return result;
}

// Sums the auxiliary loss of each row of tokens as often as the row has labels that count, so that the mean over
// these labels has the mean of the rows. Returns the cotangent of the rows' losses.
Value addAuxiliary(Loss &loss, Value auxiliary, Value scale) {
  OpBuilder builder(auxiliary.getContext());
  builder.setInsertionPointAfter(loss.lastForward);
  Build b(builder, named(builder.getContext(), "auxiliary loss"));
  Value tokens = b.reduce(loss.weight, ReduceKind::sum, {1});
  Value weighted = b.mul(auxiliary, tokens);
  loss.auxiliary = b.reduce(weighted, ReduceKind::sum, {0});
  loss.lastForward = loss.auxiliary.getDefiningOp();
  // Counts again for the backward pass, which sends this to the stages that have routers.
  builder.setInsertionPointAfterValue(loss.cotangent);
  Value cotangent = b.reduce(loss.weight, ReduceKind::sum, {1});
  cotangent.getDefiningOp()->setAttr(graph::kBackward, builder.getUnitAttr());
  if (!scale)
    return cotangent;
  cotangent = b.mul(cotangent, scale);
  cotangent.getDefiningOp()->setAttr(graph::kBackward, builder.getUnitAttr());
  return cotangent;
}

class AddLoss : public llmc::impl::AddLossBase<AddLoss> {
public:
  using AddLossBase::AddLossBase;

private:
  void runOnOperation() override;

  LogicalResult check(func::FuncOp forward);
  // Adds an argument and, for a sum, its state.
  Value addLabels(func::FuncOp micro, RankedTensorType logits);
  Value addScale(func::FuncOp micro);
  Value addSum(func::FuncOp micro, StringRef name, StringRef origin, StringRef output = "");
};

// Returns the result of @forward that has this name, or null.
Value resultNamed(func::FuncOp micro, StringRef name) {
  for (unsigned i = 0; i < micro.getNumResults(); ++i)
    if (auto output = micro.getResultAttrOfType<StringAttr>(i, graph::kOutput); output && output == name)
      return micro.getBody().front().getTerminator()->getOperand(i);
  return {};
}

LogicalResult AddLoss::check(func::FuncOp forward) {
  if (!forward || forward.isExternal())
    return getOperation().emitError("needs a function @forward with a body, found none; "
                                    "raise the model first");
  if (forward.getNumResults() == 0)
    return forward.emitError("returns nothing, expected the logits as its first result");
  auto logits = dyn_cast<RankedTensorType>(forward.getResultTypes()[0]);
  if (!logits || !isa<FloatType>(logits.getElementType()) ||
      (logits.getRank() != 2 && logits.getRank() != 3)) {
    Value value = forward.getBody().front().getTerminator()->getOperand(0);
    return emitError(value.getLoc(), "the model's first output has type ")
           << forward.getResultTypes()[0]
           << ", expected logits: floats of shape [rows, vocabulary] or [batch, sequence, "
              "vocabulary]";
  }
  for (unsigned i = 0; i < forward.getNumArguments(); ++i)
    if (auto name = forward.getArgAttrOfType<StringAttr>(i, graph::kInput);
        name && name.getValue() == "labels")
      return forward.emitError("argument ")
             << i << " is already called labels; training adds its own labels, so import the "
                     "model without its loss";
  return success();
}

Value AddLoss::addLabels(func::FuncOp micro, RankedTensorType logits) {
  Builder builder(&getContext());
  unsigned index = 0;
  for (unsigned i = 0; i < micro.getNumArguments(); ++i)
    if (micro.getArgAttr(i, graph::kInput))
      index = i + 1;
  auto attribute = builder.getNamedAttr(graph::kInput, builder.getStringAttr("labels"));
  (void)micro.insertArgument(
      index, RankedTensorType::get(logits.getShape().drop_back(), builder.getI64Type()),
      builder.getDictionaryAttr(attribute), named(&getContext(), "labels"));
  return micro.getArgument(index);
}

// Adds the scale behind all other arguments.
Value AddLoss::addScale(func::FuncOp micro) {
  Builder builder(&getContext());
  auto attribute = builder.getNamedAttr(graph::kScalar, builder.getStringAttr("loss_scale"));
  unsigned index = micro.getNumArguments();
  (void)micro.insertArgument(index, RankedTensorType::get({}, builder.getF32Type()),
                             builder.getDictionaryAttr(attribute),
                             named(&getContext(), "loss scale"));
  return micro.getArgument(index);
}

// Marks a sum that is an output by itself with the output's name.
Value AddLoss::addSum(func::FuncOp micro, StringRef name, StringRef origin, StringRef output) {
  OpBuilder builder(micro);
  auto type = RankedTensorType::get({}, builder.getF32Type());
  auto state = StateOp::create(builder, named(&getContext(), origin), name, type, Role::accumulator,
                               /*of=*/FlatSymbolRefAttr(), /*views=*/ArrayAttr(),
                               /*stacked=*/false, /*valid_shape=*/ArrayAttr());
  // A model may have a state of that name already; the table then picks another.
  if (!output.empty())
    state->setAttr(graph::kSumOf, builder.getStringAttr(output));
  state->remove();
  SymbolTable(getOperation()).insert(state, Block::iterator(micro));
  auto attribute = builder.getNamedAttr(graph::kState, FlatSymbolRefAttr::get(state));
  unsigned index = micro.getNumArguments();
  (void)micro.insertArgument(index, type, builder.getDictionaryAttr(attribute), state.getLoc());
  return micro.getArgument(index);
}

void AddLoss::runOnOperation() {
  auto micro = getOperation().lookupSymbol<func::FuncOp>("forward");
  if (failed(check(micro)))
    return signalPassFailure();
  micro.setSymName("micro");
  Operation *terminator = micro.getBody().front().getTerminator();
  OpBuilder builder(terminator);
  Value logits = terminator->getOperand(0);
  logits = Build(builder, logits.getLoc()).cast(logits, builder.getF32Type());

  Value lost = resultNamed(micro, graph::kLostRows), dropped = resultNamed(micro, graph::kDroppedChoices),
        auxiliary = resultNamed(micro, graph::kAuxiliaryLoss), choices = resultNamed(micro, graph::kBiasedChoices);
  if (auxiliary && (shapeOf(logits).size() != 3 || shapeOf(auxiliary) != shapeOf(logits).take_front())) {
    emitError(logits.getLoc(), "the model's first output has type ")
        << logits.getType() << " and the auxiliary loss of its rows " << auxiliary.getType()
        << ", expected logits [batch, sequence, vocabulary] of as many rows";
    return signalPassFailure();
  }

  Value labels = addLabels(micro, typeOf(logits));
  Value lossSum = addSum(micro, "loss.sum", "loss");
  Value tokensSum = addSum(micro, "tokens.sum", "token count");
  Value scale = scaled ? addScale(micro) : Value();
  Loss loss = buildLoss(builder, logits, labels, scale);
  SmallVector<std::pair<Value, Value>> pairs = {{logits, loss.cotangent}};
  if (auxiliary)
    pairs.push_back({auxiliary, addAuxiliary(loss, auxiliary, scale)});
  if (choices) { // counts, which no scale multiplies
    Value one = Build(builder, choices.getLoc()).constantLike(1, choices);
    one.getDefiningOp()->setAttr(graph::kBackward, builder.getUnitAttr());
    pairs.push_back({choices, one});
  }
  builder.setInsertionPointAfter(loss.lastForward);
  Value newLoss = Build(builder, loss.loss.getLoc()).add(lossSum, loss.loss);
  Value newTokens = Build(builder, loss.tokens.getLoc()).add(tokensSum, loss.tokens);

  SmallVector<Value> sums = {lossSum, tokensSum}, results = {newLoss, newTokens};
  auto addOutput = [&](Value value, StringRef name, StringRef origin, StringRef output) {
    if (!value)
      return;
    sums.push_back(addSum(micro, name, origin, output));
    results.push_back(Build(builder, value.getLoc()).add(sums.back(), value));
  };
  addOutput(loss.auxiliary, "auxiliary.sum", "auxiliary loss", graph::kAuxiliaryLoss);
  addOutput(lost, "lost.sum", "rows without room", graph::kLostRows);
  addOutput(dropped, "dropped.sum", "choices beyond capacity", graph::kDroppedChoices);
  SmallVector<Attribute> bindings;
  for (Value sum : sums)
    bindings.push_back(micro.getArgAttr(cast<BlockArgument>(sum).getArgNumber(), graph::kState));
  for (auto [primal, cotangent] : pairs)
    results.append({primal, cotangent});
  terminator->setOperands(results);
  micro.setFunctionType(FunctionType::get(&getContext(), micro.getArgumentTypes(),
                                          TypeRange(ValueRange(results))));
  micro.removeResAttrsAttr();
  for (auto [i, binding] : llvm::enumerate(bindings))
    micro.setResultAttr(i, graph::kState, binding);
  for (size_t i = 0; i < pairs.size(); ++i) {
    micro.setResultAttr(bindings.size() + 2 * i, graph::kPrimal, builder.getI64IntegerAttr(i));
    micro.setResultAttr(bindings.size() + 2 * i + 1, graph::kCotangent, builder.getI64IntegerAttr(i));
  }
}

} // namespace
