// Finds the condition of a mask that hides by a number which absorbs any score.
#include "passes/1-raise/RaiseAttention/GuardRows.h"

#include <cmath>
#include <limits>

using namespace mlir;
using namespace llmc;
using namespace llmc::graph;
using namespace llmc::raise;

static bool hides(Value number) {
  auto value = scalarOf(number);
  return value && *value <= kAbsorbsScore && std::isfinite(*value);
}

// Returns what `value` negates; null if it is no negation.
static Value negatedBy(Value value) {
  auto negation = value.getDefiningOp<NotOp>();
  return negation ? negation.getOperand() : Value();
}

// Returns the i1 whose negation `value` is as 0 and 1: cast(not c) or 1 - cast(c). Returns null for
// other values.
static Value negatedByNumber(Value value) {
  if (auto cast = value.getDefiningOp<CastOp>())
    return negatedBy(cast.getOperand());
  auto difference = value.getDefiningOp<SubOp>();
  auto cast = difference ? difference.getRhs().getDefiningOp<CastOp>() : CastOp();
  bool one = cast && scalarOf(difference.getLhs()) == 1.0 && elementOf(cast.getOperand()).isInteger(1);
  return one ? cast.getOperand() : Value();
}

// Returns the i1 that is true where a mask adds 0, if it adds one finite number n elsewhere: select(c,
// 0, n), select(not c, n, 0), or `not c` as a number times n. Returns null for other masks.
static Value conditionOf(Value mask) {
  if (auto choice = mask.getDefiningOp<SelectOp>()) {
    if (scalarOf(choice.getLhs()) == 0.0 && hides(choice.getRhs()))
      return choice.getCondition();
    bool mirrored = hides(choice.getLhs()) && scalarOf(choice.getRhs()) == 0.0;
    return mirrored ? negatedBy(choice.getCondition()) : Value();
  }
  auto product = mask.getDefiningOp<MulOp>();
  for (unsigned i : {0u, 1u})
    if (product && hides(product->getOperand(1 - i)))
      return negatedByNumber(product->getOperand(i));
  return {};
}

namespace {

struct GuardRows : OpRewritePattern<AttentionOp> {
  GuardRows(MLIRContext *context, MaskReader &reader) : OpRewritePattern(context), reader(reader) {}

  // Returns whether one side of a conjunction is a rule, and the other is not known.
  bool holdsRule(Value condition, int64_t rows, int64_t keys) const {
    auto both = condition.getDefiningOp<AndOp>();
    for (unsigned i : {0u, 1u})
      if (both && reader.ruleOf(both->getOperand(i), rows, keys) &&
          !knownMask(both->getOperand(1 - i)))
        return true;
    return false;
  }

  // Returns the mean of v over its keys, [batch, 1, heads, dim].
  static Value meanOf(Build &build, Value v, int64_t heads) {
    ArrayRef<int64_t> shape = shapeOf(v);
    int64_t batch = shape[0], keys = shape[1], own = shape[2], dim = shape[3];
    Value mean = build.scale(build.reduce(v, ReduceKind::sum, {1}), 1.0 / double(keys));
    mean = build.reshape(mean, {batch, 1, own, 1, dim});
    mean = build.broadcast(mean, {batch, 1, own, heads / own, dim});
    return build.reshape(mean, {batch, 1, heads, dim});
  }

  LogicalResult matchAndRewrite(AttentionOp op, PatternRewriter &rewriter) const override {
    Value mask = op.getMask();
    while (mask && isa_and_nonnull<ReshapeOp>(mask.getDefiningOp()))
      mask = mask.getDefiningOp()->getOperand(0);
    Value condition = mask ? conditionOf(mask) : Value();
    ArrayRef<int64_t> q = shapeOf(op.getQ());
    if (!condition || !op.getLse().use_empty() ||
        typeOf(condition).getNumElements() != typeOf(op.getMask()).getNumElements() ||
        !holdsRule(condition, q[1], shapeOf(op.getK())[1]))
      return rewriter.notifyMatchFailure(op, "mask does not hide a rule and other keys by a number");
    Build build(rewriter, op.getLoc());
    Value seen = build.reshape(condition, shapeOf(op.getMask()));
    rewriter.modifyOpInPlace(op, [&] { op.getMaskMutable().assign(seen); });
    rewriter.setInsertionPointAfter(op);
    Value none = build.constant(-std::numeric_limits<double>::infinity(), elementOf(op.getLse()));
    Value hidden = build.compare(op.getLse(), none, Predicate::eq);
    hidden = build.reshape(hidden, {q[0], q[1], q[2], 1});
    Value guarded = build.select(hidden, meanOf(build, op.getV(), q[2]), op.getO());
    rewriter.replaceAllUsesExcept(op.getO(), guarded, guarded.getDefiningOp());
    return success();
  }

  MaskReader &reader;
};

} // namespace

void raise::populateGuardRows(RewritePatternSet &patterns, MaskReader &reader) {
  patterns.add<GuardRows>(patterns.getContext(), reader);
}
