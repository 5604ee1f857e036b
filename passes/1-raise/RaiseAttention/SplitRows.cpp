// Finds the rows that follow one rule after the other.
#include "passes/1-raise/RaiseAttention/SplitRows.h"

#include "passes/1-raise/RaiseAttention/Masks.h"

using namespace mlir;
using namespace llmc;
using namespace llmc::graph;
using namespace llmc::raise;

// Bounds the parts of one attention, and the rows that a part has on average at least: many small
// parts take longer than one attention with a mask.
static constexpr int64_t kMostParts = 16, kFewestRows = 16;

namespace {

// Describes rows [begin, end) that see keys from `firstKey` on, up to `lastKey` at most, by `rule`,
// which counts rows and keys from these.
struct Part {
  int64_t begin, end, firstKey, lastKey;
  Visibility rule;
};

// Returns the part that begins at `begin`: the bounds of its rows stay or move by one a row.
std::optional<Part> partAt(ArrayRef<Span> spans, int64_t begin) {
  const Span &first = spans[begin];
  if (first.last < first.first)
    return std::nullopt;
  int64_t end = begin + 1, low = 0, high = 0, rows = spans.size();
  if (end < rows) {
    low = spans[end].first - first.first;
    high = spans[end].last - first.last;
  }
  bool moves = low >= 0 && low <= high && high <= 1;
  while (moves && end < rows && spans[end].first == spans[end - 1].first + low &&
         spans[end].last == spans[end - 1].last + high)
    ++end;
  int64_t count = first.last - first.first + 1;
  Part part{begin, end, first.first, spans[end - 1].last, {}};
  if (end - begin > 1 && high == 1)
    part.rule = {true, count - 1, low == 1 ? std::optional(count) : std::nullopt};
  return part;
}

std::optional<SmallVector<Part>> partsOf(ArrayRef<Span> spans) {
  SmallVector<Part> parts;
  int64_t rows = spans.size();
  for (int64_t begin = 0; begin < rows; begin = parts.back().end) {
    auto part = partAt(spans, begin);
    if (!part || int64_t(parts.size()) == kMostParts)
      return std::nullopt;
    parts.push_back(*part);
  }
  return int64_t(parts.size()) * kFewestRows <= rows ? std::optional(parts) : std::nullopt;
}

struct SplitRows : OpRewritePattern<AttentionOp> {
  using OpRewritePattern::OpRewritePattern;

  // Returns the parts that a known mask, or the known side of `a and b`, makes; sets `rest` to the
  // other side.
  static std::optional<SmallVector<Part>> partsOf(AttentionOp op, Value &rest) {
    int64_t rows = shapeOf(op.getQ())[1], keys = shapeOf(op.getK())[1];
    Visibility also{op.getCausal(), int64_t(op.getOffset()), std::nullopt};
    if (auto window = op.getWindow())
      also.window = *window;
    auto both = op.getMask().getDefiningOp<AndOp>();
    for (unsigned i : {0u, 1u, 2u}) {
      if (i && !both)
        break;
      auto known = knownMask(i ? both->getOperand(i - 1) : op.getMask());
      auto spans = known ? spansOf(*known, rows, keys, also) : std::nullopt;
      auto parts = spans ? ::partsOf(*spans) : std::nullopt;
      rest = i && parts ? both->getOperand(2 - i) : Value();
      if (parts)
        return parts;
    }
    return std::nullopt;
  }

  static Value cut(Build &build, Value value, int64_t dim, int64_t begin, int64_t end) {
    bool whole = begin == 0 && end == shapeOf(value)[dim];
    return whole || shapeOf(value)[dim] == 1 ? value : build.slice(value, dim, begin, end);
  }

  LogicalResult matchAndRewrite(AttentionOp op, PatternRewriter &rewriter) const override {
    Value rest;
    auto parts = op.getMask() ? partsOf(op, rest) : std::nullopt;
    if (!parts)
      return rewriter.notifyMatchFailure(op, "mask is not known, or many rules give it");
    Build build(rewriter, op.getLoc());
    if (rest) {
      SmallVector<int64_t> shape(4 - shapeOf(rest).size(), 1);
      llvm::append_range(shape, shapeOf(rest));
      rest = build.reshape(rest, shape);
    }
    SmallVector<Value> outputs, sums;
    for (const Part &part : *parts) {
      int64_t last = part.lastKey + 1, keys = last - part.firstKey;
      Value q = cut(build, op.getQ(), 1, part.begin, part.end),
            k = cut(build, op.getK(), 1, part.firstKey, last),
            v = cut(build, op.getV(), 1, part.firstKey, last), mask = rest;
      if (mask) {
        mask = cut(build, cut(build, mask, 2, part.begin, part.end), 3, part.firstKey, last);
        SmallVector<int64_t> shape(shapeOf(mask));
        shape.back() = keys;
        mask = build.broadcast(mask, shape);
      }
      Visibility rule = simplest(part.rule, part.end - part.begin, keys);
      auto lse = RankedTensorType::get(shapeOf(q).drop_back(), elementOf(op.getLse()));
      auto one = AttentionOp::create(rewriter, op.getLoc(), TypeRange{q.getType(), lse}, q, k, v,
                                     op.getScale(), rule.causal, mask, rule.offset, rule.window,
                                     op.getSoftcap().convertToDouble());
      outputs.push_back(one.getO());
      sums.push_back(one.getLse());
    }
    Value o = build.concat(outputs, 1);
    Value lse = op.getLse().use_empty() ? Value() : build.concat(sums, 1);
    rewriter.replaceAllUsesWith(op.getO(), o);
    if (lse)
      rewriter.replaceAllUsesWith(op.getLse(), lse);
    rewriter.eraseOp(op);
    return success();
  }
};

} // namespace

void raise::populateSplitRows(RewritePatternSet &patterns) {
  patterns.add<SplitRows>(patterns.getContext());
}
