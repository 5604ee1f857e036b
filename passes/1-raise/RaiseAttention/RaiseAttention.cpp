// Recognises softmax(scale * q k^T + mask) v, from the product with v upwards.
#include "passes/1-raise/Equation.h"
#include "passes/1-raise/Parameters.h"
#include "passes/1-raise/Passes.h"
#include "passes/1-raise/Patterns.h"
#include "passes/1-raise/RaiseAttention/GuardRows.h"
#include "passes/1-raise/RaiseAttention/Scores.h"
#include "passes/1-raise/RaiseAttention/SimplifyAttention.h"
#include "passes/1-raise/RaiseAttention/DecomposedSoftmax.h"
#include "passes/1-raise/RaiseAttention/SplitRows.h"

using namespace mlir;
using namespace llmc;
using namespace llmc::graph;
using namespace llmc::raise;

namespace llmc {
#define GEN_PASS_DEF_RAISEATTENTION
#include "passes/1-raise/Passes.h.inc"
} // namespace llmc

namespace {

// Holds the letters of an attention as the product of q and k has them: of the batch, of heads that
// have keys of their own, of heads that share keys, of rows, of keys and of the inner dim. `value`
// is that of v in the other product.
struct Letters {
  std::string batch, heads, shared;
  char row = 0, key = 0, inner = 0, value = 0;

  std::string queryHeads() const { return heads + shared; }
};

// Returns which operand of `matmul` (0 or 1) is `value`; nullopt if both or neither are.
std::optional<unsigned> sideOf(MatmulOp matmul, Value value) {
  if ((matmul.getLhs() == value) == (matmul.getRhs() == value))
    return std::nullopt;
  return matmul.getLhs() == value ? 0 : 1;
}

struct RaiseProduct : OpRewritePattern<MatmulOp> {
  RaiseProduct(MLIRContext *context, MaskReader &reader, bool infers)
      : OpRewritePattern(context), reader(reader), infers(infers) {}

  // Returns the letters if the two equations are an attention's, else nullopt. `scores` is the
  // equation of q k^T, whose operand `q` holds the queries; the last product has the softmax as
  // `probabilities`.
  static std::optional<Letters> lettersOf(const Equation &scores, unsigned q,
                                          const std::string &probabilities,
                                          const std::string &values, const std::string &out) {
    Letters letters;
    const std::string &qs = q == 0 ? scores.lhs : scores.rhs,
                      &ks = q == 0 ? scores.rhs : scores.lhs;
    size_t last = scores.result.size() - 1;
    for (size_t i = 0; i < last; ++i) {
      char c = scores.result[i], p = probabilities[i];
      if (!has(qs, c) || has(ks, c) != has(values, p) || !has(out, p))
        return std::nullopt;
      if (has(ks, c))
        (letters.batch.empty() ? letters.batch : letters.heads) += c;
      else
        letters.shared += c;
    }
    if (letters.batch.empty() || letters.shared.empty())
      return std::nullopt;
    // Take as rows the last of the dims that only queries have, as masks do.
    letters.row = letters.shared.back();
    letters.shared.pop_back();
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
    bool one = letters.inner && letters.inner != '?' && letters.value && letters.value != '?' &&
               has(ks, letters.inner) && has(out, letters.value);
    return one ? std::optional(letters) : std::nullopt;
  }

  // Transposes `value`, whose dims are `letters`, to the order `wanted`.
  static Value inOrder(Build &build, Value value, const std::string &letters,
                       const std::string &wanted) {
    SmallVector<int64_t> order;
    for (char letter : wanted)
      order.push_back(letters.find(letter));
    return llvm::is_sorted(order) ? value : build.transpose(value, order);
  }

  static int64_t product(ArrayRef<int64_t> sizes) {
    int64_t result = 1;
    for (int64_t size : sizes)
      result *= size;
    return result;
  }

  // Arranges `value`, whose dims are `letters`, as [batch, x, heads, y]: all heads as one dim.
  static Value arrange(Build &build, Value value, const std::string &letters,
                       const std::string &batch, char x, const std::string &heads, char y) {
    value = inOrder(build, value, letters, batch + x + heads + y);
    ArrayRef<int64_t> shape = shapeOf(value);
    return build.reshape(
        value, {shape[0], shape[1], product(shape.slice(2, heads.size())), shape.back()});
  }

  // Arranges `mask`, which broadcasts to dims `letters` of sizes `sizes`, as [batch, heads, rows,
  // keys].
  static Value arrangeMask(Build &build, Value mask, const std::string &letters,
                           ArrayRef<int64_t> sizes, const Letters &of) {
    SmallVector<int64_t> shape(letters.size() - shapeOf(mask).size(), 1);
    llvm::append_range(shape, shapeOf(mask));
    mask = build.reshape(mask, shape);
    std::string heads = of.queryHeads();
    mask = inOrder(build, mask, letters, of.batch + heads + of.row + of.key);
    shape.assign(shapeOf(mask).begin(), shapeOf(mask).end());
    shape.back() = sizes[letters.find(of.key)];
    // Broadcast all heads or none: they are merged to one dim.
    bool alike = product(ArrayRef(shape).slice(1, heads.size())) == 1;
    for (size_t i = 0; !alike && i < heads.size(); ++i)
      shape[1 + i] = sizes[letters.find(heads[i])];
    mask = build.broadcast(mask, shape);
    return build.reshape(mask, {shape[0], product(ArrayRef(shape).slice(1, heads.size())),
                                shape[shape.size() - 2], shape.back()});
  }

  LogicalResult matchAndRewrite(MatmulOp op, PatternRewriter &rewriter) const override {
    for (Value operand : op->getOperands())
      if (auto softmax = operand.getDefiningOp<SoftmaxOp>())
        if (succeeded(raise(op, softmax, rewriter)))
          return success();
    return failure();
  }

  LogicalResult raise(MatmulOp op, SoftmaxOp softmax, PatternRewriter &rewriter) const {
    auto found = scoresOf(softmax.getOperand(), reader, infers);
    auto side = sideOf(op, softmax.getResult());
    if (!found || !side)
      return rewriter.notifyMatchFailure(softmax, "not the scores of a product of two tensors");
    Scores scores = *found;
    Equation first = equationOf(scores.product), second = equationOf(op);
    unsigned q = has(first.lhs, first.result.back()) ? 1 : 0;
    const std::string &probabilities = *side == 0 ? second.lhs : second.rhs;
    const std::string &valueLetters = *side == 0 ? second.rhs : second.lhs;
    auto letters = lettersOf(first, q, probabilities, valueLetters, second.result);
    if (!letters)
      return rewriter.notifyMatchFailure(op, "dims are not those of queries, keys and values");
    // A mask refers to the last two dims as rows and keys.
    bool plain = scores.masks.empty() && scores.visibility == Visibility();
    if (!plain && first.result[first.result.size() - 2] != letters->row)
      return rewriter.notifyMatchFailure(op, "rows of the mask are not those of the queries");
    Value queries = withoutFactors(scores.product->getOperand(q), scores.scale);
    Value keys = withoutFactors(scores.product->getOperand(1 - q), scores.scale);
    Value values = op->getOperand(1 - *side);
    const std::string &qs = q == 0 ? first.lhs : first.rhs, &ks = q == 0 ? first.rhs : first.lhs;
    if (shapeOf(queries)[qs.find(letters->inner)] !=
            shapeOf(values)[valueLetters.find(letters->value)] ||
        scores.scale <= 0)
      return rewriter.notifyMatchFailure(op, "widths of keys and values differ, or scale <= 0");

    Build build(rewriter, op.getLoc());
    // Rename letters to those of the last product.
    auto renamed = [&](const std::string &own) {
      std::string other;
      for (char c : own)
        other += probabilities[first.result.find(c)];
      return other;
    };
    std::string batch2 = renamed(letters->batch), heads2 = renamed(letters->heads),
                row2 = renamed(std::string(1, letters->row));
    Value qa = arrange(build, queries, qs, letters->batch, letters->row, letters->queryHeads(),
                       letters->inner);
    Value ka =
        arrange(build, keys, ks, letters->batch, letters->key, letters->heads, letters->inner);
    Value va =
        arrange(build, values, valueLetters, batch2, probabilities.back(), heads2, letters->value);
    Value mask = buildMask(build, scores);
    if (mask)
      mask = arrangeMask(build, mask, first.result, shapeOf(scores.product.getResult()), *letters);
    auto lse = RankedTensorType::get(shapeOf(qa).drop_back(), elementOf(qa));
    const Visibility &seen = scores.visibility;
    auto attention = AttentionOp::create(
        rewriter, op.getLoc(), TypeRange{qa.getType(), lse}, qa, ka, va, APFloat(scores.scale),
        seen.causal, mask, seen.offset, seen.window, roundTripDecimal(scores.softcap));
    std::string have = batch2 + row2 + renamed(letters->queryHeads()) + letters->value;
    SmallVector<int64_t> sizes;
    for (char letter : have)
      sizes.push_back(shapeOf(op.getResult())[second.result.find(letter)]);
    Value o = inOrder(build, build.reshape(attention.getO(), sizes), have, second.result);
    rewriter.replaceOp(op, o);
    return success();
  }

  MaskReader &reader;
  bool infers;
};

struct RaiseAttention : llmc::impl::RaiseAttentionBase<RaiseAttention> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    MaskReader reader;
    auto module = getOperation()->getParentOfType<ModuleOp>();
    patterns.add<RaiseProduct>(&getContext(), reader, isInference(module));
    populateRaiseSoftmax(patterns);
    populateSimplifyAttention(patterns, reader);
    if (isInference(module))
      populateGuardRows(patterns, reader);
    populateDropIdentities(patterns);
    populateAbsorbTransposes(patterns);
    if (failed(applyToFixpoint(getOperation(), std::move(patterns))))
      return signalPassFailure();
    RewritePatternSet last(&getContext());
    populateSplitRows(last);
    if (failed(applyToFixpoint(getOperation(), std::move(last))))
      signalPassFailure();
  }
};

} // namespace
