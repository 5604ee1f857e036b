// Recognises (x - mean) / sqrt(variance + eps) * scale + bias, from the bias upwards.
#include "passes/1-raise/Passes.h"
#include "passes/1-raise/Patterns.h"
#include "passes/1-raise/RowStatistics.h"

using namespace mlir;
using namespace llmc;
using namespace llmc::graph;
using namespace llmc::raise;

namespace llmc {
#define GEN_PASS_DEF_RAISELAYERNORM
#include "passes/1-raise/Passes.h.inc"
} // namespace llmc

namespace {

struct RaiseSum : OpRewritePattern<AddOp> {
  using OpRewritePattern::OpRewritePattern;

  // Returns x and sets eps if `value` is (x - mean) / sqrt(variance + eps); else returns null.
  static Value normalized(Value value, double &eps) {
    Value centred, variance, deviation;
    if (auto quotient = value.getDefiningOp<DivOp>()) {
      centred = quotient.getLhs();
      deviation = quotient.getRhs();
      variance = deviationOf(deviation, false, eps);
    } else if (auto product = value.getDefiningOp<MulOp>()) {
      for (unsigned i : {0u, 1u})
        if (Value found = deviationOf(product->getOperand(i), true, eps)) {
          centred = product->getOperand(1 - i);
          deviation = product->getOperand(i);
          variance = found;
        }
    }
    auto difference = centred ? centred.getDefiningOp<SubOp>() : SubOp();
    if (!difference || !variance || eps <= 0)
      return {};
    Value x = difference.getLhs();
    Value root = meanSquareOf(variance);
    // The variance may be taken of an equal difference of its own.
    auto again = root ? root.getDefiningOp<SubOp>() : SubOp();
    if (!again || again.getLhs() != x || !isPerRow(deviation, x))
      return {};
    for (SubOp centring : {difference, again})
      if (meanOf(centring.getRhs()) != x || !isPerRow(centring.getRhs(), x))
        return {};
    return x;
  }

  LogicalResult matchAndRewrite(AddOp op, PatternRewriter &rewriter) const override {
    for (unsigned b : {0u, 1u}) {
      Value bias = op->getOperand(b);
      auto scaled = op->getOperand(1 - b).getDefiningOp<MulOp>();
      if (!scaled)
        continue;
      for (unsigned s : {0u, 1u}) {
        double eps = 0;
        Value scale = scaled->getOperand(s);
        Value x = normalized(scaled->getOperand(1 - s), eps);
        if (!x || x.getType() != op.getType() || !isVectorOf(scale, x) || !isVectorOf(bias, x))
          continue;
        auto perRow = RankedTensorType::get(shapeOf(x).drop_back(), elementOf(x));
        auto norm =
            LayerNormOp::create(rewriter, op.getLoc(), TypeRange{x.getType(), perRow, perRow}, x,
                                scale, bias, rewriter.getF64FloatAttr(roundTripDecimal(eps)));
        rewriter.replaceOp(op, norm.getY());
        return success();
      }
    }
    return rewriter.notifyMatchFailure(op, "not normalized rows times a scale plus a bias");
  }
};

// Writes eps as the decimal that gives the same f32: an attribute of f32 type was rounded.
struct WriteEpsAsDecimal : OpRewritePattern<LayerNormOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(LayerNormOp op, PatternRewriter &rewriter) const override {
    double eps = op.getEps().convertToDouble(), written = roundTripDecimal(eps);
    if (eps == written)
      return failure();
    rewriter.modifyOpInPlace(op, [&] { op.setEpsAttr(rewriter.getF64FloatAttr(written)); });
    return success();
  }
};

struct RaiseLayerNorm : llmc::impl::RaiseLayerNormBase<RaiseLayerNorm> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<RaiseSum, WriteEpsAsDecimal>(&getContext());
    if (failed(applyToFixpoint(getOperation(), std::move(patterns))))
      signalPassFailure();
  }
};

} // namespace
