// Adds the backward half of @micro in three steps: gives every forward op an id and every parameter
// an accumulator; runs reverse mode from the pairs (primal, cotangent); returns the accumulators in
// place of the pairs.
#include "dialects/graph/Build.h"
#include "dialects/graph/GraphAttrs.h"
#include "dialects/graph/Repeat.h"
#include "mlir/AsmParser/AsmParser.h"
#include "mlir/IR/Dominance.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/CSE.h"
#include "mlir/Transforms/RegionUtils.h"
#include "passes/2-train/Differentiate/ReverseMode.h"
#include "passes/2-train/Passes.h"

using namespace mlir;
using namespace llmc;
using namespace llmc::graph;
using namespace llmc::train;

namespace llmc {
#define GEN_PASS_DEF_DIFFERENTIATE
#include "passes/2-train/Passes.h.inc"
} // namespace llmc

namespace {

class Differentiate : public llmc::impl::DifferentiateBase<Differentiate> {
public:
  using DifferentiateBase::DifferentiateBase;

private:
  void runOnOperation() override;

  void numberForwardOps();
  void addAccumulators(BlockGradients &gradients);
  LogicalResult takePairs(BlockGradients &gradients);
  void returnAccumulators(const BlockGradients &gradients);

  func::FuncOp micro;
  Type gradientType; // of the accumulators
};

void Differentiate::numberForwardOps() {
  int64_t next = 0;
  Builder builder(&getContext());
  micro.getBody().walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (!op->hasTrait<OpTrait::IsTerminator>() && !op->hasAttr(graph::kBackward))
      op->setAttr(graph::kId, builder.getI64IntegerAttr(next++));
  });
}

// Returns the type of an accumulator: `gradient`, or the parameter's element type if that is wider
// than f32.
RankedTensorType accumulatorType(RankedTensorType parameter, Type gradient) {
  Type element = parameter.getElementType();
  return parameter.clone(element.getIntOrFloatBitWidth() > 32 ? element : gradient);
}

// Adds one state and one argument, behind the last parameter, for each parameter.
void Differentiate::addAccumulators(BlockGradients &gradients) {
  SymbolTable symbols(getOperation());
  SmallVector<std::pair<unsigned, StateOp>> parameters;
  for (unsigned i = 0; i < micro.getNumArguments(); ++i)
    if (auto symbol = micro.getArgAttrOfType<FlatSymbolRefAttr>(i, graph::kState))
      if (auto state = symbols.lookup<StateOp>(symbol.getValue());
          state && state.getRole() == Role::parameter && isFloat(micro.getArgument(i)))
        parameters.push_back({i, state});
  if (parameters.empty())
    return;
  unsigned place = parameters.back().first + 1;
  for (auto [index, parameter] : parameters) {
    Value argument = micro.getArgument(index);
    OpBuilder builder(parameter);
    // Counts of tokens are exact in f32 alone.
    bool counts = parameter->hasAttr(kBiasRate);
    auto type = accumulatorType(typeOf(argument), counts ? builder.getF32Type() : gradientType);
    auto state = StateOp::create(builder, parameter.getLoc(),
                                 (parameter.getSymName() + ".grad").str(), type,
                                 Role::accumulator, FlatSymbolRefAttr::get(parameter),
                                 /*views=*/ArrayAttr(), parameter.getStacked(),
                                 /*valid_shape=*/ArrayAttr());
    state->remove();
    symbols.insert(state, std::next(Block::iterator(parameter)));
    auto attribute = builder.getNamedAttr(graph::kState, FlatSymbolRefAttr::get(state));
    (void)micro.insertArgument(place, type, builder.getDictionaryAttr(attribute),
                               argument.getLoc());
    gradients.active.insert(argument);
    gradients.accumulators[argument] = micro.getArgument(place++);
  }
}

// Reads the pairs and removes them from the results.
LogicalResult Differentiate::takePairs(BlockGradients &gradients) {
  Operation *terminator = micro.getBody().front().getTerminator();
  std::map<int64_t, std::pair<Value, Value>> pairs;
  llvm::BitVector taken(micro.getNumResults());
  for (unsigned i = 0; i < micro.getNumResults(); ++i) {
    Value value = terminator->getOperand(i);
    auto primal = micro.getResultAttrOfType<IntegerAttr>(i, graph::kPrimal);
    auto cotangent = micro.getResultAttrOfType<IntegerAttr>(i, graph::kCotangent);
    if (primal)
      pairs[primal.getInt()].first = value;
    if (cotangent)
      pairs[cotangent.getInt()].second = value;
    if (primal || cotangent)
      taken.set(i);
  }
  if (pairs.empty())
    return micro.emitError("has no pair of results graph.primal and graph.cotangent, so there is "
                           "nothing to differentiate; add a loss first");
  for (auto &[index, pair] : pairs) {
    auto [primal, cotangent] = pair;
    if (!primal || !cotangent)
      return micro.emitError("has only one of the results graph.primal = ")
             << index << " and graph.cotangent = " << index << ", expected both";
    if (primal.getType() != cotangent.getType())
      return micro.emitError("pair ") << index << ": the cotangent has type "
                                      << cotangent.getType() << ", expected the primal's type "
                                      << primal.getType();
    OpBuilder builder(terminator);
    MarkBackward mark;
    builder.setListener(&mark);
    Value &sum = gradients.cotangents[primal];
    sum = addCotangents(builder, sum, cotangent);
  }
  terminator->eraseOperands(taken);
  (void)micro.eraseResults(taken);
  return success();
}

void Differentiate::returnAccumulators(const BlockGradients &gradients) {
  Operation *terminator = micro.getBody().front().getTerminator();
  unsigned place = 0;
  for (auto [parameter, accumulator] : gradients.accumulators) {
    unsigned index = cast<BlockArgument>(accumulator).getArgNumber();
    DictionaryAttr attributes = micro.getArgAttrDict(index);
    Value result = gradients.accumulated.lookup(parameter);
    if (!result) {
      // Adds zero: every accumulator is written by each micro-batch, as the plan's checks expect.
      OpBuilder builder(terminator);
      MarkBackward mark;
      builder.setListener(&mark);
      Build b(builder, parameter.getLoc());
      result = b.add(accumulator, b.constantLike(0, accumulator));
      emitWarning(parameter.getLoc(), "the loss does not depend on parameter ")
          << micro.getArgAttr(cast<BlockArgument>(parameter).getArgNumber(), graph::kState)
          << "; its gradient stays zero";
    }
    terminator->insertOperands(place, result);
    (void)micro.insertResult(place++, accumulator.getType(), attributes);
  }
}

void Differentiate::runOnOperation() {
  micro = getOperation().lookupSymbol<func::FuncOp>("micro");
  if (!micro || micro.isExternal()) {
    getOperation().emitError("needs a function @micro with a body, found none; add a loss first");
    return signalPassFailure();
  }
  gradientType = parseType(gradient, &getContext());
  if (!gradientType || !gradientType.isFloat() || gradientType.getIntOrFloatBitWidth() > 32) {
    getOperation().emitError("gradient is ") << gradient << ", expected f32, bf16 or f16";
    return signalPassFailure();
  }
  numberForwardOps();
  BlockGradients gradients;
  addAccumulators(gradients);
  if (failed(takePairs(gradients)))
    return signalPassFailure();

  Block &body = micro.getBody().front();
  MarkBackward mark;
  OpBuilder builder(body.getTerminator(), &mark);
  ReverseMode mode;
  if (failed(mode.differentiate(builder, body, gradients)))
    return signalPassFailure();
  returnAccumulators(gradients);

  IRRewriter rewriter(&getContext());
  (void)runRegionDCE(rewriter, micro->getRegions());
  // A primal that nothing else reads has served: layers need not stack it.
  for (auto repeat : llvm::make_early_inc_range(body.getOps<RepeatOp>()))
    (void)dropUnusedResults(rewriter, repeat);
  (void)runRegionDCE(rewriter, micro->getRegions());
  mode.rematerializeCheapValues(body, body);
  // Neighbouring ops' gradients do the same transposes and reshapes.
  DominanceInfo dominance(micro);
  eliminateCommonSubExpressions(rewriter, dominance, micro);
  numKept += mode.numKept;
  numRematerialized += mode.numRematerialized;
}

} // namespace
