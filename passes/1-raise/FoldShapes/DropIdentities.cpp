// Drops movement that moves nothing, or that the next movement undoes.
#include "passes/1-raise/Constants.h"
#include "passes/1-raise/Patterns.h"

using namespace mlir;
using namespace llmc;
using namespace llmc::graph;
using namespace llmc::raise;

static bool isIdentity(Operation *op) {
  if (op->getNumOperands() != 1 || op->getNumResults() != 1 ||
      op->getOperand(0).getType() != op->getResult(0).getType())
    return false;
  if (isa<ReshapeOp, BroadcastOp, CastOp, ConcatOp>(op))
    return true;
  if (auto slice = dyn_cast<SliceOp>(op)) // equal types: nothing was cut off
    return llvm::all_of(slice.getSteps(), [](int64_t step) { return step == 1; });
  if (auto transpose = dyn_cast<TransposeOp>(op)) {
    ArrayRef<int64_t> order = transpose.getPermutation();
    return llvm::is_sorted(order);
  }
  return false;
}

namespace {

struct DropIdentity : RewritePattern {
  explicit DropIdentity(MLIRContext *context) : RewritePattern(MatchAnyOpTypeTag(), 2, context) {}
  LogicalResult matchAndRewrite(Operation *op, PatternRewriter &rewriter) const override {
    if (!isIdentity(op))
      return failure();
    rewriter.replaceOp(op, op->getOperand(0));
    return success();
  }
};

struct ComposeReshapes : OpRewritePattern<ReshapeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ReshapeOp op, PatternRewriter &rewriter) const override {
    auto inner = op.getOperand().getDefiningOp<ReshapeOp>();
    if (!inner)
      return failure();
    rewriter.replaceOpWithNewOp<ReshapeOp>(op, op.getType(), inner.getOperand());
    return success();
  }
};

struct ComposeTransposes : OpRewritePattern<TransposeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(TransposeOp op, PatternRewriter &rewriter) const override {
    auto inner = op.getOperand().getDefiningOp<TransposeOp>();
    if (!inner)
      return failure();
    SmallVector<int64_t> order;
    for (int64_t dim : op.getPermutation())
      order.push_back(inner.getPermutation()[dim]);
    rewriter.replaceOpWithNewOp<TransposeOp>(op, op.getType(), inner.getOperand(), order);
    return success();
  }
};

struct ComposeSlices : OpRewritePattern<SliceOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(SliceOp op, PatternRewriter &rewriter) const override {
    // Keep a value that several slices read (one head of a fused product).
    auto inner = op.getOperand().getDefiningOp<SliceOp>();
    if (!inner || !inner->hasOneUse())
      return rewriter.notifyMatchFailure(op, "no slice that it alone reads");
    SmallVector<int64_t> starts, limits, steps;
    for (size_t i = 0; i < op.getStarts().size(); ++i) {
      int64_t start = inner.getStarts()[i], step = inner.getSteps()[i];
      int64_t count = shapeOf(op.getResult())[i];
      starts.push_back(count ? start + op.getStarts()[i] * step : start);
      steps.push_back(op.getSteps()[i] * step);
      limits.push_back(count ? starts.back() + (count - 1) * steps.back() + 1 : start);
    }
    rewriter.replaceOpWithNewOp<SliceOp>(op, op.getType(), inner.getOperand(), starts, limits,
                                         steps);
    return success();
  }
};

// Returns the operand of the broadcast that defines `operand`; null if none does.
Value beforeBroadcast(Value operand) {
  auto broadcast = operand.getDefiningOp<BroadcastOp>();
  return broadcast ? broadcast.getOperand() : Value();
}

// Returns the operand of a reshape that only puts ones in front of its shape; else null.
Value beforeLeadingOnes(Value operand) {
  auto reshape = operand.getDefiningOp<ReshapeOp>();
  if (!reshape)
    return {};
  ArrayRef<int64_t> from = shapeOf(reshape.getOperand()), to = shapeOf(operand);
  bool only = from.size() < to.size() && to.take_back(from.size()) == from;
  return only ? reshape.getOperand() : Value();
}

// Returns the operand of a reshape that only takes ones off the front of its shape; else null.
Value beforeDroppedOnes(Value operand) {
  auto reshape = operand.getDefiningOp<ReshapeOp>();
  if (!reshape)
    return {};
  ArrayRef<int64_t> from = shapeOf(reshape.getOperand()), to = shapeOf(operand);
  if (from.size() <= to.size() || from.take_back(to.size()) != to)
    return {};
  bool ones = llvm::all_of(from.drop_back(to.size()), [](int64_t size) { return size == 1; });
  return ones ? reshape.getOperand() : Value();
}

// Drops what only broadcasts an operand of an elementwise op, which broadcasts by itself, if the
// result keeps its shape.
struct DropBroadcastOfOperand : RewritePattern {
  using Before = Value (*)(Value);
  DropBroadcastOfOperand(MLIRContext *context, Before before)
      : RewritePattern(MatchAnyOpTypeTag(), 1, context), before(before) {}

  LogicalResult matchAndRewrite(Operation *op, PatternRewriter &rewriter) const override {
    if (!isElementwise(op) || op->getNumOperands() < 2)
      return failure();
    for (OpOperand &operand : op->getOpOperands()) {
      Value smaller = before(operand.get());
      if (!smaller)
        continue;
      std::optional<SmallVector<int64_t>> joined = SmallVector<int64_t>();
      for (OpOperand &other : op->getOpOperands())
        joined = broadcastShapes(*joined, shapeOf(&other == &operand ? smaller : other.get()));
      if (ArrayRef<int64_t>(*joined) != shapeOf(op->getResult(0)))
        continue;
      rewriter.modifyOpInPlace(op, [&] { operand.set(smaller); });
      return success();
    }
    return failure();
  }

  Before before;
};

} // namespace

void raise::populateDropIdentities(RewritePatternSet &patterns) {
  patterns.add<DropIdentity, ComposeReshapes, ComposeTransposes, ComposeSlices>(
      patterns.getContext());
  patterns.add<DropBroadcastOfOperand>(patterns.getContext(), beforeBroadcast);
  patterns.add<DropBroadcastOfOperand>(patterns.getContext(), beforeDroppedOnes);
}

void raise::populateDropLeadingOnes(RewritePatternSet &patterns) {
  patterns.add<DropBroadcastOfOperand>(patterns.getContext(), beforeLeadingOnes);
}
