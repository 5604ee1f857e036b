// Computes what depends on constants only, with the ops' own `evaluate`.
#include "dialects/graph/Evaluate.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "passes/1-raise/Constants.h"
#include "passes/1-raise/Passes.h"
#include "passes/1-raise/Patterns.h"

using namespace mlir;
using namespace llmc;
using namespace llmc::graph;
using namespace llmc::raise;

namespace llmc {
#define GEN_PASS_DEF_FOLDCONSTANTS
#include "passes/1-raise/Passes.h.inc"
} // namespace llmc

// Bounds the elements of a folded result, which the module holds as a constant, where it is no larger than its operands.
static constexpr int64_t kMaxElements = int64_t(1) << 24;

static Tensor emptyLike(Value value) {
  return Tensor(std::vector<int64_t>(shapeOf(value).begin(), shapeOf(value).end()));
}

namespace {

struct EvaluateOnConstants : OpInterfaceRewritePattern<GraphOpInterface> {
  using OpInterfaceRewritePattern::OpInterfaceRewritePattern;

  static bool mayFold(Operation *op) {
    int64_t given = kMaxGrown;
    for (Value operand : op->getOperands())
      given = std::max(given, typeOf(operand).getNumElements());
    return llvm::all_of(op->getResults(), [&](Value result) {
      return typeOf(result).getNumElements() <= std::min(given, kMaxElements);
    });
  }

  LogicalResult matchAndRewrite(GraphOpInterface op, PatternRewriter &rewriter) const override {
    if (isa<ConstantOp>(op.getOperation()) || !isMemoryEffectFree(op))
      return failure();
    for (Value operand : op->getOperands())
      if (!operand.getDefiningOp<ConstantOp>())
        return failure();
    if (!mayFold(op))
      return rewriter.notifyMatchFailure(op, "result is larger than a constant may become");

    SmallVector<Tensor> inputs, outputs;
    for (Value operand : op->getOperands())
      inputs.push_back(*constantOf(operand));
    for (Value result : op->getResults())
      outputs.push_back(emptyLike(result));
    SmallVector<const Tensor *> pointers;
    for (const Tensor &input : inputs)
      pointers.push_back(&input);
    op.evaluate(pointers, outputs);

    SmallVector<Value> results;
    for (auto [result, tensor] : llvm::zip(op->getResults(), outputs))
      results.push_back(ConstantOp::create(rewriter, op.getLoc(), result.getType(),
                                           denseOf(tensor, typeOf(result))));
    rewriter.replaceOp(op, results);
    return success();
  }
};

// Returns the operand that `op` leaves as it is, since the others are neutral; null if none.
Value unchangedOperand(Operation *op) {
  auto is = [&](unsigned i, double number) {
    auto scalar = scalarOf(op->getOperand(i));
    return scalar && *scalar == number;
  };
  auto pick = [&](unsigned i) { return op->getOperand(i); };
  if (isa<AddOp, OrOp>(op))
    return is(1, 0) ? pick(0) : is(0, 0) ? pick(1) : Value();
  if (isa<MulOp, AndOp>(op))
    return is(1, 1) ? pick(0) : is(0, 1) ? pick(1) : Value();
  if (isa<SubOp>(op))
    return is(1, 0) ? pick(0) : Value();
  if (isa<DivOp>(op))
    return is(1, 1) ? pick(0) : Value();
  if (auto power = dyn_cast<PowOp>(op))
    return power.getExponent().convertToDouble() == 1 ? pick(0) : Value();
  if (isa<SelectOp>(op))
    return is(0, 1) ? pick(1) : is(0, 0) ? pick(2) : Value();
  return {};
}

struct DropNeutralArithmetic : RewritePattern {
  explicit DropNeutralArithmetic(MLIRContext *context)
      : RewritePattern(MatchAnyOpTypeTag(), 1, context) {}

  LogicalResult matchAndRewrite(Operation *op, PatternRewriter &rewriter) const override {
    Value kept = unchangedOperand(op);
    if (!kept || kept.getType() != op->getResult(0).getType())
      return failure();
    rewriter.replaceOp(op, kept);
    return success();
  }
};

struct ShrinkConstantOperands : RewritePattern {
  explicit ShrinkConstantOperands(MLIRContext *context)
      : RewritePattern(MatchAnyOpTypeTag(), 1, context) {}

  // Returns whether the operands still broadcast to the result's shape with operand `index` as
  // `shape`.
  static bool givesSameShape(Operation *op, unsigned index, ArrayRef<int64_t> shape) {
    std::optional<SmallVector<int64_t>> joined = SmallVector<int64_t>();
    for (OpOperand &operand : op->getOpOperands()) {
      bool replaced = operand.getOperandNumber() == index;
      joined = broadcastShapes(*joined, replaced ? shape : shapeOf(operand.get()));
      if (!joined)
        return false;
    }
    return ArrayRef<int64_t>(*joined) == shapeOf(op->getResult(0));
  }

  LogicalResult matchAndRewrite(Operation *op, PatternRewriter &rewriter) const override {
    if (!isElementwise(op) || op->getNumOperands() < 2)
      return failure();
    for (OpOperand &operand : op->getOpOperands()) {
      auto constant = operand.get().getDefiningOp<ConstantOp>();
      if (!constant || shapeOf(operand.get()).empty())
        continue;
      DenseElementsAttr dense = denseValueOf(operand.get());
      if (!dense)
        continue;
      auto none = RankedTensorType::get({}, dense.getElementType());
      DenseElementsAttr value =
          dense.isSplat() ? dense.resizeSplat(none) : dropBroadcastDims(dense);
      auto type = cast<RankedTensorType>(value.getType());
      if (type == operand.get().getType() ||
          !givesSameShape(op, operand.getOperandNumber(), type.getShape()))
        continue;
      Value small = ConstantOp::create(rewriter, constant.getLoc(), type, value);
      rewriter.modifyOpInPlace(op, [&] { operand.set(small); });
      return success();
    }
    return failure();
  }
};

// Replaces select(x != x, 0, x) by x if x is a softmax, which is zeros in a row without a maximum.
struct DropNanGuard : OpRewritePattern<SelectOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(SelectOp op, PatternRewriter &rewriter) const override {
    auto test = op.getCondition().getDefiningOp<CompareOp>();
    if (!test || test.getLhs() != test.getRhs() || !test.getLhs().getDefiningOp<SoftmaxOp>())
      return failure();
    if (test.getPredicate() != Predicate::ne && test.getPredicate() != Predicate::eq)
      return failure();
    bool differs = test.getPredicate() == Predicate::ne;
    Value kept = differs ? op.getRhs() : op.getLhs();
    if (kept != test.getLhs() || kept.getType() != op.getType() ||
        scalarOf(differs ? op.getLhs() : op.getRhs()) != 0.0)
      return rewriter.notifyMatchFailure(op, "does not choose between the softmax and zero");
    rewriter.replaceOp(op, kept);
    return success();
  }
};

// Replaces a power with a constant scalar exponent by graph.pow.
struct PowerByNumber : OpRewritePattern<PowerOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(PowerOp op, PatternRewriter &rewriter) const override {
    auto exponent = scalarOf(op.getRhs());
    if (!exponent || op.getLhs().getType() != op.getType())
      return rewriter.notifyMatchFailure(op, "exponent is no number");
    rewriter.replaceOpWithNewOp<PowOp>(op, op.getType(), op.getLhs(),
                                       rewriter.getF64FloatAttr(*exponent));
    return success();
  }
};

struct FoldConstants : llmc::impl::FoldConstantsBase<FoldConstants> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    populateFoldConstants(patterns);
    if (failed(applyToFixpoint(getOperation(), std::move(patterns))))
      signalPassFailure();
  }
};

} // namespace

void raise::populateFoldConstants(RewritePatternSet &patterns) {
  patterns.add<EvaluateOnConstants, DropNeutralArithmetic, ShrinkConstantOperands, DropNanGuard,
               PowerByNumber>(patterns.getContext());
}

LogicalResult raise::applyToFixpoint(Operation *op, RewritePatternSet &&patterns) {
  GreedyRewriteConfig config;
  config.setRegionSimplificationLevel(GreedySimplifyRegionLevel::Disabled)
      .setUseTopDownTraversal(true)
      .enableFolding(false)
      .enableConstantCSE(false)
      .setMaxIterations(GreedyRewriteConfig::kNoLimit);
  return applyPatternsGreedily(op, std::move(patterns), config);
}
