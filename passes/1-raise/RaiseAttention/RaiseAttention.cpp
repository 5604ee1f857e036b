// softmax(scale * q k^T + mask) v, matched from the product with v up.
#include "passes/1-raise/Equation.h"
#include "passes/1-raise/Passes.h"
#include "passes/1-raise/Patterns.h"
#include "passes/1-raise/RaiseAttention/Scores.h"
#include "passes/1-raise/RaiseAttention/SimplifyAttention.h"

using namespace mlir;
using namespace llmc;
using namespace llmc::graph;
using namespace llmc::raise;

namespace llmc {
#define GEN_PASS_DEF_RAISEATTENTION
#include "passes/1-raise/Passes.h.inc"
} // namespace llmc

namespace {

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

struct RaiseProduct : OpRewritePattern<MatmulOp> {
  RaiseProduct(MLIRContext *context, MaskReader &reader)
      : OpRewritePattern(context), reader(reader) {}

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

  // `mask`, which broadcasts to dims `letters`, as [batch, heads, rows, keys].
  static Value arrangeMask(Build &build, Value mask, const std::string &letters,
                           const Letters &of, int64_t keys) {
    SmallVector<int64_t> shape(letters.size() - shapeOf(mask).size(), 1);
    llvm::append_range(shape, shapeOf(mask));
    mask = build.reshape(mask, shape);
    SmallVector<int64_t> order;
    for (char letter : of.batch + of.row + of.key)
      order.push_back(letters.find(letter));
    if (!llvm::is_sorted(order))
      mask = build.transpose(mask, order);
    shape.assign(shapeOf(mask).begin(), shapeOf(mask).end());
    shape.back() = keys;
    mask = build.broadcast(mask, shape);
    if (of.batch.size() == 1)
      shape.insert(shape.begin() + 1, 1);
    return build.reshape(mask, shape);
  }

  LogicalResult matchAndRewrite(MatmulOp op, PatternRewriter &rewriter) const override {
    for (Value operand : op->getOperands())
      if (auto softmax = operand.getDefiningOp<SoftmaxOp>())
        if (succeeded(raise(op, softmax, rewriter)))
          return success();
    return failure();
  }

  LogicalResult raise(MatmulOp op, SoftmaxOp softmax, PatternRewriter &rewriter) const {
    auto found = scoresOf(softmax.getOperand(), reader);
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
    // A mask's rows are those of the last two dims.
    bool plain = scores.masks.empty() && scores.visibility == Visibility();
    if (!plain && first.result[first.result.size() - 2] != letters->row)
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
    Value mask = buildMask(build, scores);
    if (mask)
      mask = arrangeMask(build, mask, first.result, *letters, shapeOf(ka)[1]);
    auto lse = RankedTensorType::get(shapeOf(qa).drop_back(), elementOf(qa));
    const Visibility &seen = scores.visibility;
    auto attention = AttentionOp::create(rewriter, op.getLoc(), TypeRange{qa.getType(), lse}, qa,
                                         ka, va, APFloat(scores.scale), seen.causal, mask,
                                         seen.offset, seen.window, asWritten(scores.softcap));
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

  MaskReader &reader;
};

struct RaiseAttention : llmc::impl::RaiseAttentionBase<RaiseAttention> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    MaskReader reader;
    patterns.add<RaiseProduct>(&getContext(), reader);
    populateSimplifyAttention(patterns, reader);
    populateDropIdentities(patterns);
    populateAbsorbTransposes(patterns);
    if (failed(applyToFixpoint(getOperation(), std::move(patterns))))
      signalPassFailure();
  }
};

} // namespace
