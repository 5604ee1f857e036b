// Recognises a product whose factors are x, 1 / sqrt(mean(x^2) + eps) and a vector.
#include "passes/1-raise/Passes.h"
#include "passes/1-raise/Patterns.h"
#include "passes/1-raise/RowStatistics.h"

using namespace mlir;
using namespace llmc;
using namespace llmc::graph;
using namespace llmc::raise;

namespace llmc {
#define GEN_PASS_DEF_RAISERMSNORM
#include "passes/1-raise/Passes.h.inc"
} // namespace llmc

static constexpr int kDepth = 3; // products of products

namespace {

struct Factor {
  Value value;
  bool inverted;
};

// Collects the factors of `value` through products and quotients of its own shape, at most `depth`
// of them; does not take `whole` apart.
void collect(Value value, Value whole, bool inverted, int depth, SmallVectorImpl<Factor> &factors) {
  Operation *op = value.getDefiningOp();
  ArrayRef<int64_t> shape = shapeOf(value);
  if (value == whole || depth == 0 || !isa_and_nonnull<MulOp, DivOp>(op)) {
    factors.push_back({value, inverted});
    return;
  }
  for (unsigned i : {0u, 1u}) {
    Value operand = op->getOperand(i);
    bool under = inverted != (i == 1 && isa<DivOp>(op));
    collect(operand, whole, under, shapeOf(operand) == shape ? depth - 1 : 0, factors);
  }
}

struct Norm {
  Value x, scale;
  double eps = 0;
};

// Returns x and sets eps if the factor is 1 / sqrt(mean(x^2) + eps) with one number a row; else
// null.
Value normalizedBy(const Factor &factor, double &eps) {
  Value variance = deviationOf(factor.value, /*inverse=*/!factor.inverted, eps);
  Value x = variance ? meanSquareOf(variance) : Value();
  return x && isPerRow(factor.value, x) ? x : Value();
}

std::optional<Norm> normOf(Value product) {
  SmallVector<Factor> factors;
  collect(product, {}, false, kDepth, factors);
  Norm norm;
  for (const Factor &factor : factors)
    if (!norm.x)
      norm.x = normalizedBy(factor, norm.eps);
  if (!norm.x || norm.x.getType() != product.getType() || norm.eps < 0)
    return std::nullopt;
  // x may be a product itself.
  factors.clear();
  collect(product, norm.x, false, kDepth, factors);
  int rows = 0, deviations = 0;
  for (const Factor &factor : factors) {
    double eps = 0;
    if (factor.value == norm.x && !factor.inverted)
      ++rows;
    else if (normalizedBy(factor, eps) == norm.x && eps == norm.eps)
      ++deviations;
    else if (isVectorOf(factor.value, product) && !factor.inverted && !norm.scale)
      norm.scale = factor.value;
    else
      return std::nullopt;
  }
  return rows == 1 && deviations == 1 ? std::optional(norm) : std::nullopt;
}

struct RaiseProduct : RewritePattern {
  RaiseProduct(MLIRContext *context, bool scaled)
      : RewritePattern(MatchAnyOpTypeTag(), 1, context), scaled(scaled) {}

  LogicalResult matchAndRewrite(Operation *op, PatternRewriter &rewriter) const override {
    if (!isa<MulOp, DivOp>(op) || shapeOf(op->getResult(0)).empty())
      return failure();
    auto norm = normOf(op->getResult(0));
    if (!norm || bool(norm->scale) != scaled)
      return rewriter.notifyMatchFailure(op, "not rows times the inverse of their deviation");
    ArrayRef<int64_t> shape = shapeOf(norm->x);
    Type element = elementOf(norm->x);
    if (!norm->scale) {
      auto vector = RankedTensorType::get(shape.take_back(1), element);
      norm->scale = ConstantOp::create(
          rewriter, op->getLoc(), vector,
          DenseElementsAttr::get(vector, Attribute(rewriter.getFloatAttr(element, 1))));
    }
    auto perRow = RankedTensorType::get(shape.drop_back(), element);
    auto raised =
        RmsNormOp::create(rewriter, op->getLoc(), TypeRange{norm->x.getType(), perRow}, norm->x,
                          norm->scale, rewriter.getF64FloatAttr(roundTripDecimal(norm->eps)));
    rewriter.replaceOp(op, raised.getY());
    return success();
  }

  bool scaled;
};

// Writes eps as the decimal that gives the same f32: an attribute of f32 type was rounded.
struct WriteEpsAsDecimal : OpRewritePattern<RmsNormOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(RmsNormOp op, PatternRewriter &rewriter) const override {
    double eps = op.getEps().convertToDouble(), written = roundTripDecimal(eps);
    if (eps == written)
      return failure();
    rewriter.modifyOpInPlace(op, [&] { op.setEpsAttr(rewriter.getF64FloatAttr(written)); });
    return success();
  }
};

// Turns a norm of rows less their mean into a layer norm with a bias of zeros.
struct CentredRows : OpRewritePattern<RmsNormOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(RmsNormOp op, PatternRewriter &rewriter) const override {
    auto centring = op.getX().getDefiningOp<SubOp>();
    Value x = centring ? meanOf(centring.getRhs()) : Value();
    if (!x || x != centring.getLhs() || !isPerRow(centring.getRhs(), x) ||
        op.getEps().convertToDouble() <= 0)
      return rewriter.notifyMatchFailure(op, "rows are not without their mean, or eps <= 0");
    Build build(rewriter, op.getLoc());
    auto perRow = op.getRstd().getType();
    auto norm =
        LayerNormOp::create(rewriter, op.getLoc(), TypeRange{x.getType(), perRow, perRow}, x,
                            op.getScale(), build.constantLike(0, op.getScale()), op.getEpsAttr());
    rewriter.replaceOp(op, {norm.getY(), norm.getRstd()});
    return success();
  }
};

struct RaiseRmsNorm : llmc::impl::RaiseRmsNormBase<RaiseRmsNorm> {
  void runOnOperation() override {
    // A norm with a scale contains one without, so the former is matched first.
    for (bool scaled : {true, false}) {
      RewritePatternSet patterns(&getContext());
      patterns.add<RaiseProduct>(&getContext(), scaled);
      patterns.add<WriteEpsAsDecimal>(&getContext());
      if (failed(applyToFixpoint(getOperation(), std::move(patterns))))
        return signalPassFailure();
    }
    RewritePatternSet patterns(&getContext());
    patterns.add<CentredRows>(&getContext());
    if (failed(applyToFixpoint(getOperation(), std::move(patterns))))
      signalPassFailure();
  }
};

} // namespace
