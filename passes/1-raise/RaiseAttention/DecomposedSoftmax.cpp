// Recognises exp(x - max(x)) / sum of these, over the last dim.
#include "passes/1-raise/RaiseAttention/DecomposedSoftmax.h"

#include "passes/1-raise/RowStatistics.h"

using namespace mlir;
using namespace llmc;
using namespace llmc::graph;
using namespace llmc::raise;

// Returns the value whose reduction over the last dim `value` is, as one number a row; else null.
static Value reducedAs(Value value, ReduceKind kind) {
  Value inner = value;
  while (auto reshape = inner.getDefiningOp<ReshapeOp>())
    inner = reshape.getOperand();
  auto reduce = inner.getDefiningOp<ReduceOp>();
  if (!reduce || reduce.getKind() != kind)
    return {};
  int64_t last = int64_t(shapeOf(reduce.getOperand()).size()) - 1;
  bool rows = reduce.getDims() == ArrayRef<int64_t>(last) && isPerRow(value, reduce.getOperand());
  return rows ? reduce.getOperand() : Value();
}

namespace {

struct RaiseQuotient : OpRewritePattern<DivOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(DivOp op, PatternRewriter &rewriter) const override {
    auto power = op.getLhs().getDefiningOp<ExpOp>();
    auto difference = power ? power.getOperand().getDefiningOp<SubOp>() : SubOp();
    if (!difference || reducedAs(op.getRhs(), ReduceKind::sum) != op.getLhs() ||
        reducedAs(difference.getRhs(), ReduceKind::max) != difference.getLhs())
      return rewriter.notifyMatchFailure(op, "not exp(x - max x) over its sum");
    rewriter.replaceOpWithNewOp<SoftmaxOp>(op, op.getType(), difference.getLhs());
    return success();
  }
};

// Drops the subtraction of each row's maximum, which a softmax does itself.
struct DropShift : OpRewritePattern<SoftmaxOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(SoftmaxOp op, PatternRewriter &rewriter) const override {
    auto difference = op.getOperand().getDefiningOp<SubOp>();
    if (!difference || reducedAs(difference.getRhs(), ReduceKind::max) != difference.getLhs())
      return failure();
    Value plain = difference.getLhs();
    rewriter.modifyOpInPlace(op, [&] { op->setOperand(0, plain); });
    return success();
  }
};

// Drops a choice where a softmax is NaN: it never is, since a row that is -inf gives zeros.
struct DropGuard : OpRewritePattern<SelectOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(SelectOp op, PatternRewriter &rewriter) const override {
    auto test = op.getCondition().getDefiningOp<CompareOp>();
    if (!test || test.getPredicate() != Predicate::ne || test.getLhs() != test.getRhs() ||
        test.getLhs() != op.getRhs() || !op.getRhs().getDefiningOp<SoftmaxOp>() ||
        op.getRhs().getType() != op.getType())
      return failure();
    rewriter.replaceOp(op, op.getRhs());
    return success();
  }
};

} // namespace

void raise::populateRaiseSoftmax(RewritePatternSet &patterns) {
  patterns.add<RaiseQuotient, DropShift, DropGuard>(patterns.getContext());
}
