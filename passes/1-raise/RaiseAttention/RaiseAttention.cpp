// softmax(scale * q k^T + mask) v, matched from the product with v up.
#include "passes/1-raise/Constants.h"
#include "passes/1-raise/Equation.h"
#include "passes/1-raise/Passes.h"
#include "passes/1-raise/Patterns.h"

#include <cmath>

using namespace mlir;
using namespace llmc;
using namespace llmc::graph;
using namespace llmc::raise;

namespace llmc {
#define GEN_PASS_DEF_RAISEATTENTION
#include "passes/1-raise/Passes.h.inc"
} // namespace llmc

// What is added to a score that must not count: its weight underflows to zero.
static constexpr double kHidden = -1e4;

// `value` without factors that are numbers; `scale` collects them.
static Value withoutFactors(Value value, double &scale) {
  while (Operation *op = value.getDefiningOp()) {
    unsigned other;
    if (isa<MulOp, DivOp>(op) && scalarOf(op->getOperand(1)))
      other = 1;
    else if (isa<MulOp>(op) && scalarOf(op->getOperand(0)))
      other = 0;
    else
      break;
    if (op->getOperand(1 - other).getType() != value.getType())
      break;
    double number = *scalarOf(op->getOperand(other));
    scale *= isa<DivOp>(op) ? 1 / number : number;
    value = op->getOperand(1 - other);
  }
  return value;
}

//===-- Masks ---------------------------------------------------------------===//

enum class MaskKind { None, Causal, Other };

// What `mask`, broadcast to scores of rows x keys, hides; `hides` reads one element:
// 1 hidden, 0 seen, -1 neither.
static MaskKind kindOf(const Tensor &mask, int64_t rows, int64_t keys,
                       llvm::function_ref<int(double)> hides) {
  size_t rank = mask.shape.size();
  int64_t maskKeys = rank >= 1 ? mask.shape[rank - 1] : 1;
  int64_t maskRows = rank >= 2 ? mask.shape[rank - 2] : 1;
  bool none = true, causal = maskRows == rows && maskKeys == keys && rows == keys;
  for (int64_t i = 0; i < mask.size(); ++i) {
    int hidden = hides(mask.data[i]);
    if (hidden < 0)
      return MaskKind::Other;
    none &= !hidden;
    causal &= hidden == (i % maskKeys > i / maskKeys % maskRows);
  }
  return none ? MaskKind::None : causal ? MaskKind::Causal : MaskKind::Other;
}

// Peels a mask off `value`. Returns null if there is none; `kind` says what it was.
static Value withoutMask(Value value, MaskKind &kind) {
  ArrayRef<int64_t> shape = shapeOf(value);
  if (shape.size() < 2)
    return {};
  int64_t rows = shape[shape.size() - 2], keys = shape.back();
  if (auto sum = value.getDefiningOp<AddOp>()) {
    for (unsigned i : {0u, 1u}) {
      auto mask = constantOf(sum->getOperand(i));
      if (!mask || sum->getOperand(1 - i).getType() != value.getType())
        continue;
      kind = kindOf(*mask, rows, keys, [](double x) { return x == 0 ? 0 : x <= kHidden ? 1 : -1; });
      return sum->getOperand(1 - i);
    }
  }
  if (auto choice = value.getDefiningOp<SelectOp>()) {
    auto condition = constantOf(choice.getCondition());
    for (unsigned seen : {1u, 0u}) {
      Value scores = seen ? choice.getLhs() : choice.getRhs();
      auto hidden = scalarOf(seen ? choice.getRhs() : choice.getLhs());
      if (!condition || !hidden || *hidden > kHidden || scores.getType() != value.getType())
        continue;
      kind =
          kindOf(*condition, rows, keys, [&](double x) { return (x != 0) == bool(seen) ? 0 : 1; });
      return scores;
    }
  }
  return {};
}

//===-- The whole -----------------------------------------------------------===//

namespace {

struct Scores {
  MatmulOp product;
  double scale = 1;
  bool causal = false;
};

// What stands in a softmax: scale * q k^T, masked or not.
std::optional<Scores> scoresOf(SoftmaxOp softmax) {
  Scores scores;
  bool masked = false;
  Value value = withoutFactors(softmax.getOperand(), scores.scale);
  MaskKind kind = MaskKind::None;
  while (Value inner = withoutMask(value, kind)) {
    // A factor behind the mask would shrink what it hides.
    if (kind == MaskKind::Other || scores.scale != 1 || masked)
      return std::nullopt;
    scores.causal |= kind == MaskKind::Causal;
    masked = kind == MaskKind::Causal;
    value = inner;
  }
  value = withoutFactors(value, scores.scale);
  scores.product = value.getDefiningOp<MatmulOp>();
  if (!scores.product || scores.scale <= 0)
    return std::nullopt;
  return scores;
}

// The letters of an attention: batch dims (one or two), row, key, and the inner
// dims of q k^T and of v.
struct Letters {
  std::string batch;
  char row = 0, key = 0, inner = 0, value = 0;
};

// The operand of `matmul` (0 or 1) that is `value`; nothing if both or neither are.
std::optional<unsigned> sideOf(MatmulOp matmul, Value value) {
  if ((matmul.getLhs() == value) == (matmul.getRhs() == value))
    return std::nullopt;
  return matmul.getLhs() == value ? 0 : 1;
}

// 1/sqrt(dim) where the scale is that up to the rounding of two f32 roots.
double exactScale(double scale, int64_t dim) {
  double usual = 1 / std::sqrt(static_cast<double>(dim));
  return std::abs(scale - usual) < 1e-6 * usual ? usual : asWritten(scale);
}

struct RaiseProduct : OpRewritePattern<MatmulOp> {
  using OpRewritePattern::OpRewritePattern;

  // Renames the letters of `from` in the equation of scores to those that
  // stand at the same places of the softmax in the last product.
  static std::optional<Letters> lettersOf(const Equation &scores, unsigned q,
                                          const std::string &probabilities,
                                          const std::string &values, const std::string &out) {
    Letters letters;
    const std::string &qs = q == 0 ? scores.lhs : scores.rhs,
                      &ks = q == 0 ? scores.rhs : scores.lhs;
    for (size_t i = 0; i + 1 < scores.result.size(); ++i) {
      char c = scores.result[i], p = probabilities[i];
      if (has(qs, c) && has(ks, c)) {
        if (!has(values, p) || !has(out, p))
          return std::nullopt;
        letters.batch += c;
      } else if (has(qs, c) && !letters.row && !has(values, p) && has(out, p)) {
        letters.row = c;
      } else {
        return std::nullopt;
      }
    }
    letters.key = scores.result.back();
    if (has(qs, letters.key) || !has(values, probabilities.back()) ||
        has(out, probabilities.back()))
      return std::nullopt;
    for (char c : qs)
      if (!has(scores.result, c))
        letters.inner = letters.inner ? '?' : c;
    for (char c : values)
      if (!has(probabilities, c))
        letters.value = letters.value ? '?' : c;
    bool one = letters.row && letters.inner && letters.inner != '?' && letters.value &&
               letters.value != '?' && has(ks, letters.inner) && has(out, letters.value);
    if (!one || letters.batch.empty() || letters.batch.size() > 2)
      return std::nullopt;
    return letters;
  }

  // `value`, whose dims are `letters`, as [batch, x, heads, y]. Heads are 1 where
  // there is one batch dim.
  static Value arrange(Build &build, Value value, const std::string &letters,
                       const std::string &batch, char x, char y) {
    std::string wanted = batch.substr(0, 1) + x + batch.substr(1) + y;
    SmallVector<int64_t> order;
    for (char letter : wanted)
      order.push_back(letters.find(letter));
    if (!llvm::is_sorted(order))
      value = build.transpose(value, order);
    if (batch.size() == 2)
      return value;
    ArrayRef<int64_t> shape = shapeOf(value);
    return build.reshape(value, {shape[0], shape[1], 1, shape[2]});
  }

  LogicalResult matchAndRewrite(MatmulOp op, PatternRewriter &rewriter) const override {
    for (Value operand : op->getOperands())
      if (auto softmax = operand.getDefiningOp<SoftmaxOp>())
        if (succeeded(raise(op, softmax, rewriter)))
          return success();
    return failure();
  }

  LogicalResult raise(MatmulOp op, SoftmaxOp softmax, PatternRewriter &rewriter) const {
    auto found = scoresOf(softmax);
    auto side = sideOf(op, softmax.getResult());
    if (!found || !side)
      return failure();
    Scores scores = *found;
    Equation first = equationOf(scores.product), second = equationOf(op);
    unsigned q = has(first.lhs, first.result.back()) ? 1 : 0;
    const std::string &probabilities = *side == 0 ? second.lhs : second.rhs;
    const std::string &valueLetters = *side == 0 ? second.rhs : second.lhs;
    auto letters = lettersOf(first, q, probabilities, valueLetters, second.result);
    if (!letters)
      return failure();
    Value queries = withoutFactors(scores.product->getOperand(q), scores.scale);
    Value keys = withoutFactors(scores.product->getOperand(1 - q), scores.scale);
    Value values = op->getOperand(1 - *side);
    const std::string &qs = q == 0 ? first.lhs : first.rhs, &ks = q == 0 ? first.rhs : first.lhs;
    if (shapeOf(queries)[qs.find(letters->inner)] !=
            shapeOf(values)[valueLetters.find(letters->value)] ||
        scores.scale <= 0)
      return failure();

    Build build(rewriter, op.getLoc());
    std::string batch2; // the batch letters as the last product writes them
    for (char c : letters->batch)
      batch2 += probabilities[first.result.find(c)];
    char row2 = probabilities[first.result.find(letters->row)];
    Value qa = arrange(build, queries, qs, letters->batch, letters->row, letters->inner);
    Value ka = arrange(build, keys, ks, letters->batch, letters->key, letters->inner);
    Value va = arrange(build, values, valueLetters, batch2, probabilities.back(), letters->value);
    double scale = exactScale(scores.scale, shapeOf(qa).back());
    auto lse = RankedTensorType::get(shapeOf(qa).drop_back(), elementOf(qa));
    auto attention =
        AttentionOp::create(rewriter, op.getLoc(), TypeRange{qa.getType(), lse}, qa, ka, va,
                            rewriter.getF64FloatAttr(scale), rewriter.getBoolAttr(scores.causal));
    Value o = attention.getO();
    std::string have = batch2.substr(0, 1) + row2 + batch2.substr(1) + letters->value;
    if (batch2.size() == 1)
      o = build.reshape(o, {shapeOf(o)[0], shapeOf(o)[1], shapeOf(o)[3]});
    SmallVector<int64_t> order;
    for (char letter : second.result)
      order.push_back(have.find(letter));
    if (!llvm::is_sorted(order))
      o = build.transpose(o, order);
    rewriter.replaceOp(op, o);
    return success();
  }
};

// One key is seen either way: one form for readers that prove a mask by its values
// and those that know the model.
struct SeeOneKey : OpRewritePattern<AttentionOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(AttentionOp op, PatternRewriter &rewriter) const override {
    if (!op.getCausal() || op.getWindow() || shapeOf(op.getK())[1] != 1)
      return failure();
    rewriter.modifyOpInPlace(op, [&] { op.setCausal(false); });
    return success();
  }
};

struct RaiseAttention : llmc::impl::RaiseAttentionBase<RaiseAttention> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<RaiseProduct, SeeOneKey>(&getContext());
    if (failed(applyToFixpoint(getOperation(), std::move(patterns))))
      signalPassFailure();
  }
};

} // namespace
