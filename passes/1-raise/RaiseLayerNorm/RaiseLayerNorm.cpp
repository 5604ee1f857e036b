// (x - mean) / sqrt(variance + eps) * scale + bias, matched from the bias up.
#include "passes/1-raise/Constants.h"
#include "passes/1-raise/Passes.h"
#include "passes/1-raise/Patterns.h"

#include <cmath>

using namespace mlir;
using namespace llmc;
using namespace llmc::graph;
using namespace llmc::raise;

namespace llmc {
#define GEN_PASS_DEF_RAISELAYERNORM
#include "passes/1-raise/Passes.h.inc"
} // namespace llmc

// One number a row may have any shape on its way; where it meets the rows, the
// last dim must be 1 (perRow).
static Value withoutReshapes(Value value) {
  while (auto reshape = value.getDefiningOp<ReshapeOp>())
    value = reshape.getOperand();
  return value;
}
static bool perRow(Value value, Value x) {
  SmallVector<int64_t> shape(shapeOf(x));
  shape.back() = 1;
  return shapeOf(value) == ArrayRef<int64_t>(shape);
}

// The value whose mean over the last dim `value` is; null if it is not a mean.
static Value meanOf(Value value) {
  value = withoutReshapes(value);
  double factor = 0;
  Value sum;
  Operation *op = value.getDefiningOp();
  if (!isa_and_nonnull<MulOp, DivOp>(op))
    return {};
  for (unsigned i : {0u, 1u}) {
    auto number = scalarOf(op->getOperand(i));
    if (!number || (i == 0 && isa<DivOp>(op)))
      continue;
    factor = isa<DivOp>(op) ? 1 / *number : *number;
    sum = op->getOperand(1 - i);
  }
  if (!sum)
    return {};
  auto reduce = withoutReshapes(sum).getDefiningOp<ReduceOp>();
  if (!reduce || reduce.getKind() != ReduceKind::sum)
    return {};
  ArrayRef<int64_t> shape = shapeOf(reduce.getOperand());
  if (reduce.getDims() != ArrayRef<int64_t>(int64_t(shape.size()) - 1) ||
      std::abs(factor * shape.back() - 1) > 1e-6)
    return {};
  return reduce.getOperand();
}

// x, if `value` is x * x or x ^ 2.
static Value squareRootOf(Value value) {
  if (auto power = value.getDefiningOp<PowOp>())
    return power.getExponent().convertToDouble() == 2 ? power.getOperand() : Value();
  auto product = value.getDefiningOp<MulOp>();
  return product && product.getLhs() == product.getRhs() ? product.getLhs() : Value();
}

// v and eps, if `value` is 1 / sqrt(v + eps) (`inverse`) or sqrt(v + eps).
static Value varianceOf(Value value, bool inverse, double &eps) {
  value = withoutReshapes(value);
  Value inner;
  if (auto rsqrt = value.getDefiningOp<RsqrtOp>(); rsqrt && inverse)
    inner = rsqrt.getOperand();
  if (auto sqrt = value.getDefiningOp<SqrtOp>(); sqrt && !inverse)
    inner = sqrt.getOperand();
  if (auto power = value.getDefiningOp<PowOp>())
    if (power.getExponent().convertToDouble() == (inverse ? -0.5 : 0.5))
      inner = power.getOperand();
  if (auto quotient = value.getDefiningOp<DivOp>(); quotient && inverse)
    if (scalarOf(quotient.getLhs()) == 1.0)
      return varianceOf(quotient.getRhs(), false, eps);
  auto sum = inner ? withoutReshapes(inner).getDefiningOp<AddOp>() : AddOp();
  if (!sum)
    return {};
  for (unsigned i : {0u, 1u})
    if (auto number = scalarOf(sum->getOperand(i))) {
      eps = *number;
      return sum->getOperand(1 - i);
    }
  return {};
}

namespace {

struct RaiseSum : OpRewritePattern<AddOp> {
  using OpRewritePattern::OpRewritePattern;

  // x and eps, if `value` is (x - mean) / sqrt(variance + eps).
  static Value normalized(Value value, double &eps) {
    Value centred, variance, deviation;
    if (auto quotient = value.getDefiningOp<DivOp>()) {
      centred = quotient.getLhs();
      deviation = quotient.getRhs();
      variance = varianceOf(deviation, false, eps);
    } else if (auto product = value.getDefiningOp<MulOp>()) {
      for (unsigned i : {0u, 1u})
        if (Value found = varianceOf(product->getOperand(i), true, eps)) {
          centred = product->getOperand(1 - i);
          deviation = product->getOperand(i);
          variance = found;
        }
    }
    auto difference = centred ? centred.getDefiningOp<SubOp>() : SubOp();
    if (!difference || !variance || eps <= 0)
      return {};
    Value x = difference.getLhs();
    Value squares = meanOf(variance);
    Value root = squares ? squareRootOf(squares) : Value();
    // The variance may be taken of an equal difference of its own.
    auto again = root ? root.getDefiningOp<SubOp>() : SubOp();
    if (!again || again.getLhs() != x || !perRow(deviation, x))
      return {};
    for (SubOp centring : {difference, again})
      if (meanOf(centring.getRhs()) != x || !perRow(centring.getRhs(), x))
        return {};
    return x;
  }

  static bool isVector(Value value, Value x) { return shapeOf(value) == shapeOf(x).take_back(1); }

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
        if (!x || x.getType() != op.getType() || !isVector(scale, x) || !isVector(bias, x))
          continue;
        auto perRow = RankedTensorType::get(shapeOf(x).drop_back(), elementOf(x));
        auto norm =
            LayerNormOp::create(rewriter, op.getLoc(), TypeRange{x.getType(), perRow, perRow}, x,
                                scale, bias, rewriter.getF64FloatAttr(asWritten(eps)));
        rewriter.replaceOp(op, norm.getY());
        return success();
      }
    }
    return failure();
  }
};

// One eps for all readers: an attribute of f32 type was rounded on its way.
struct WriteEpsAsDecimal : OpRewritePattern<LayerNormOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(LayerNormOp op, PatternRewriter &rewriter) const override {
    double eps = op.getEps().convertToDouble(), written = asWritten(eps);
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
