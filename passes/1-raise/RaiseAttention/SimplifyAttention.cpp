#include "passes/1-raise/RaiseAttention/SimplifyAttention.h"

#include "passes/1-raise/Movement.h"

#include <cmath>

using namespace mlir;
using namespace llmc;
using namespace llmc::graph;
using namespace llmc::raise;

static Visibility visibilityOf(AttentionOp op) {
  Visibility rule{op.getCausal(), int64_t(op.getOffset()), std::nullopt};
  if (auto window = op.getWindow())
    rule.window = *window;
  return rule;
}

static void setVisibility(AttentionOp op, const Visibility &rule) {
  Builder builder(op.getContext());
  op.setCausal(rule.causal);
  op.setOffset(rule.offset);
  if (rule.window)
    op.setWindowAttr(builder.getI64IntegerAttr(*rule.window));
  else
    op.removeWindowAttr();
}

static int64_t rowsOf(AttentionOp op) { return shapeOf(op.getQ())[1]; }
static int64_t keysOf(AttentionOp op) { return shapeOf(op.getK())[1]; }

namespace {

//===-- What is seen --------------------------------------------------------===//

struct CanonicalizeVisibility : OpRewritePattern<AttentionOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(AttentionOp op, PatternRewriter &rewriter) const override {
    Visibility rule = visibilityOf(op), shortest = simplest(rule, rowsOf(op), keysOf(op));
    if (rule == shortest)
      return failure();
    rewriter.modifyOpInPlace(op, [&] { setVisibility(op, shortest); });
    return success();
  }
};

struct ReadKnownMask : OpRewritePattern<AttentionOp> {
  ReadKnownMask(MLIRContext *context, MaskReader &reader)
      : OpRewritePattern(context), reader(reader) {}

  LogicalResult matchAndRewrite(AttentionOp op, PatternRewriter &rewriter) const override {
    auto rule = reader.ruleOf(op.getMask(), rowsOf(op), keysOf(op), visibilityOf(op));
    if (!rule)
      return rewriter.notifyMatchFailure(op, "mask is not known, or no visibility rule gives it");
    rewriter.modifyOpInPlace(op, [&] {
      op.getMaskMutable().clear();
      setVisibility(op, *rule);
    });
    return success();
  }

  MaskReader &reader;
};

// Returns `value` as a mask of 4 dims: with leading ones, and the last dim broadcast to `keys`.
Value asMask(Build &build, Value value, int64_t keys) {
  SmallVector<int64_t> shape(4 - shapeOf(value).size(), 1);
  llvm::append_range(shape, shapeOf(value));
  value = build.reshape(value, shape);
  shape.back() = keys;
  return build.broadcast(value, shape);
}

// Moves a reshape of a mask `a and b` that inserts dims of 1 to both sides.
struct SinkReshapeOfConjunction : OpRewritePattern<AttentionOp> {
  using OpRewritePattern::OpRewritePattern;

  // Returns the dim of `from` that each dim of `to` is, -1 if it is inserted; nullopt if the shapes
  // differ in other dims.
  static std::optional<SmallVector<int64_t>> dimsOf(ArrayRef<int64_t> from, ArrayRef<int64_t> to) {
    SmallVector<int64_t> dims;
    int64_t next = 0, rank = from.size();
    for (int64_t size : to) {
      bool same = next < rank && from[next] == size;
      if (!same && size != 1)
        return std::nullopt;
      dims.push_back(same ? next++ : -1);
    }
    return next == rank ? std::optional(dims) : std::nullopt;
  }

  LogicalResult matchAndRewrite(AttentionOp op, PatternRewriter &rewriter) const override {
    auto reshape = op.getMask() ? op.getMask().getDefiningOp<ReshapeOp>() : ReshapeOp();
    auto both = reshape ? reshape.getOperand().getDefiningOp<AndOp>() : AndOp();
    ArrayRef<int64_t> shape = both ? shapeOf(both.getResult()) : ArrayRef<int64_t>();
    auto dims = both ? dimsOf(shape, shapeOf(op.getMask())) : std::nullopt;
    if (!dims)
      return failure();
    Build build(rewriter, op.getLoc());
    SmallVector<Value> sides;
    for (Value side : both->getOperands()) {
      SmallVector<int64_t> own(shape.size() - shapeOf(side).size(), 1), wanted;
      llvm::append_range(own, shapeOf(side));
      for (int64_t dim : *dims)
        wanted.push_back(dim < 0 ? 1 : own[dim]);
      sides.push_back(build.reshape(side, wanted));
    }
    Value mask = AndOp::create(rewriter, op.getLoc(), sides[0], sides[1]);
    rewriter.modifyOpInPlace(op, [&] { op.getMaskMutable().assign(mask); });
    return success();
  }
};

// Moves one side of a mask `a and b` into the attributes if it follows a rule, since an attention
// skips what a rule hides.
struct SplitKnownMask : OpRewritePattern<AttentionOp> {
  SplitKnownMask(MLIRContext *context, MaskReader &reader)
      : OpRewritePattern(context), reader(reader) {}

  LogicalResult matchAndRewrite(AttentionOp op, PatternRewriter &rewriter) const override {
    auto both = op.getMask() ? op.getMask().getDefiningOp<AndOp>() : AndOp();
    if (!both)
      return failure();
    for (unsigned i : {0u, 1u}) {
      auto rule =
          reader.ruleOf(both->getOperand(i), rowsOf(op), keysOf(op), visibilityOf(op));
      if (!rule)
        continue;
      Build build(rewriter, op.getLoc());
      Value rest = asMask(build, both->getOperand(1 - i), keysOf(op));
      rewriter.modifyOpInPlace(op, [&] {
        op.getMaskMutable().assign(rest);
        setVisibility(op, *rule);
      });
      return success();
    }
    return failure();
  }

  MaskReader &reader;
};

// Replaces the mask by the operand of a broadcast, or by the condition of a select of 0 and -inf.
struct CanonicalizeMask : OpRewritePattern<AttentionOp> {
  using OpRewritePattern::OpRewritePattern;

  static Value shorter(Value mask) {
    if (auto broadcast = mask.getDefiningOp<BroadcastOp>()) {
      ArrayRef<int64_t> from = shapeOf(broadcast.getOperand());
      return !from.empty() && from.back() == shapeOf(mask).back() ? broadcast.getOperand()
                                                                  : Value();
    }
    auto choice = mask.getDefiningOp<SelectOp>();
    auto hidden = choice ? scalarOf(choice.getRhs()) : std::nullopt;
    bool seen = hidden && std::isinf(*hidden) && *hidden < 0 && scalarOf(choice.getLhs()) == 0.0;
    return seen ? choice.getCondition() : Value();
  }

  LogicalResult matchAndRewrite(AttentionOp op, PatternRewriter &rewriter) const override {
    Value mask = op.getMask() ? shorter(op.getMask()) : Value();
    if (!mask)
      return failure();
    Build build(rewriter, op.getLoc());
    mask = asMask(build, mask, keysOf(op));
    rewriter.modifyOpInPlace(op, [&] { op.getMaskMutable().assign(mask); });
    return success();
  }
};

//===-- Operands ------------------------------------------------------------===//

// Moves a number that multiplies q or k into the scale.
struct FoldFactorsIntoScale : OpRewritePattern<AttentionOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(AttentionOp op, PatternRewriter &rewriter) const override {
    for (unsigned i : {0u, 1u}) {
      Movement movement = traceMovement(op->getOperand(i));
      if (movement.factor == 1 || movement.factor <= 0)
        continue;
      Value plain = withoutFactor(rewriter, op->getOperand(i));
      double scale = op.getScale().convertToDouble() * movement.factor;
      rewriter.modifyOpInPlace(op, [&] {
        op->setOperand(i, plain);
        op.setScaleAttr(rewriter.getF64FloatAttr(scale));
      });
      return success();
    }
    return failure();
  }

  // Rebuilds the movement of `value` without what multiplies it.
  static Value withoutFactor(PatternRewriter &rewriter, Value value) {
    Movement movement = traceMovement(value);
    if (value == movement.base)
      return value;
    Operation *op = value.getDefiningOp();
    for (Value operand : op->getOperands())
      if (!scalarOf(operand) || isa<ReshapeOp, TransposeOp, BroadcastOp>(op)) {
        Value inner = withoutFactor(rewriter, operand);
        if (!isa<ReshapeOp, TransposeOp, BroadcastOp>(op))
          return inner;
        rewriter.setInsertionPoint(op);
        return cloneForTypes(rewriter, op, inner, value.getType())->getResult(0);
      }
    return value;
  }
};

// Drops repeats of keys and values for each query head of a group: attention reads them once.
struct GroupHeads : OpRewritePattern<AttentionOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(AttentionOp op, PatternRewriter &rewriter) const override {
    Movement k = traceMovement(op.getK()), v = traceMovement(op.getV());
    int64_t repeats = repeatsOf(k, 2);
    if (repeats == 1 || repeats != repeatsOf(v, 2) || k.factor != 1 || v.factor != 1)
      return rewriter.notifyMatchFailure(op, "keys and values are not repeated alike");
    if (opsToRebuild(k, 2) > k.ops || opsToRebuild(v, 2) > v.ops)
      return rewriter.notifyMatchFailure(op, "heads that are read once take more ops");
    Build build(rewriter, op.getLoc());
    Value keys = rebuild(build, k, 2), values = rebuild(build, v, 2);
    rewriter.modifyOpInPlace(op, [&] {
      op.getKMutable().assign(keys);
      op.getVMutable().assign(values);
    });
    return success();
  }
};

// Rebuilds movement of q, k or v if that takes fewer ops.
struct ShortenMovement : OpRewritePattern<AttentionOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(AttentionOp op, PatternRewriter &rewriter) const override {
    for (unsigned i : {0u, 1u, 2u}) {
      Movement movement = traceMovement(op->getOperand(i));
      if (movement.factor != 1 || repeatsOf(movement, 2) != 1 ||
          opsToRebuild(movement, 2) >= movement.ops)
        continue;
      Build build(rewriter, op.getLoc());
      Value value = rebuild(build, movement, 2);
      rewriter.modifyOpInPlace(op, [&] { op->setOperand(i, value); });
      return success();
    }
    return failure();
  }
};

// Sets the scale to 1/sqrt(dim) where it is that up to the rounding of two f32 roots.
struct CanonicalizeScale : OpRewritePattern<AttentionOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(AttentionOp op, PatternRewriter &rewriter) const override {
    double scale = op.getScale().convertToDouble();
    double usual = 1 / std::sqrt(static_cast<double>(shapeOf(op.getQ()).back()));
    double exact = std::abs(scale - usual) < 1e-6 * usual ? usual : roundTripDecimal(scale);
    if (exact == scale)
      return failure();
    rewriter.modifyOpInPlace(op, [&] { op.setScaleAttr(rewriter.getF64FloatAttr(exact)); });
    return success();
  }
};

} // namespace

void raise::populateSimplifyAttention(RewritePatternSet &patterns, MaskReader &reader) {
  patterns.add<ReadKnownMask, SplitKnownMask>(patterns.getContext(), reader);
  patterns.add<CanonicalizeVisibility, CanonicalizeMask, SinkReshapeOfConjunction, FoldFactorsIntoScale, GroupHeads,
               ShortenMovement, CanonicalizeScale>(patterns.getContext());
}
