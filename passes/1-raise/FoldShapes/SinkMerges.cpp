// Moves merged dimensions towards the results, op by op, until they meet the reshape that undoes
// the merge: an exporter flattens [b, s, d] to [b * s, d] before a matmul and unflattens behind it.
#include "passes/1-raise/Constants.h"
#include "passes/1-raise/Equation.h"
#include "passes/1-raise/Parameters.h"
#include "passes/1-raise/Patterns.h"

using namespace mlir;
using namespace llmc;
using namespace llmc::graph;
using namespace llmc::raise;

namespace {

// Lists the sizes that each dim of a merged tensor is made of, outermost first.
using Groups = SmallVector<SmallVector<int64_t, 2>, 4>;

// Describes a reshape that only merges neighbouring dims.
struct Merge {
  Value source;
  Groups groups;

  bool merges(size_t dim) const { return groups[dim].size() > 1; }
  // Returns the source dim at which group `dim` begins.
  size_t begin(size_t dim) const {
    size_t position = 0;
    for (size_t i = 0; i < dim; ++i)
      position += groups[i].size();
    return position;
  }
  size_t trailingSingles() const {
    size_t count = 0;
    while (count < groups.size() && groups[groups.size() - 1 - count].size() == 1)
      ++count;
    return count;
  }
};

std::optional<Merge> mergeOf(Value value) {
  auto reshape = value.getDefiningOp<ReshapeOp>();
  if (!reshape || isParameter(reshape.getOperand()))
    return std::nullopt;
  ArrayRef<int64_t> from = shapeOf(reshape.getOperand()), to = shapeOf(value);
  if (from.size() <= to.size())
    return std::nullopt;
  Merge merge{reshape.getOperand(), {}};
  size_t next = 0;
  for (size_t dim = 0; dim < to.size(); ++dim) {
    auto &group = merge.groups.emplace_back();
    int64_t product = 1;
    do {
      if (next == from.size())
        return std::nullopt;
      product *= from[next];
      group.push_back(from[next++]);
    } while (product < to[dim]);
    if (product != to[dim])
      return std::nullopt;
    // Ones between two groups belong to the earlier one, unless the next dim is
    // itself a one.
    while (next < from.size() && from[next] == 1 && (dim + 1 == to.size() || to[dim + 1] != 1))
      group.push_back(from[next++]);
  }
  if (next != from.size())
    return std::nullopt;
  return merge;
}

SmallVector<int64_t> flatten(const Groups &groups) {
  SmallVector<int64_t> shape;
  for (const auto &group : groups)
    shape.append(group.begin(), group.end());
  return shape;
}

Value mergeAgain(PatternRewriter &rewriter, Location loc, Value value, Value like) {
  return ReshapeOp::create(rewriter, loc, like.getType(), value);
}

RankedTensorType typeWith(Value like, ArrayRef<int64_t> shape) {
  return RankedTensorType::get(shape, elementOf(like));
}

//===-- Elementwise ---------------------------------------------------------===//

// Returns the shape of `operand` before the merge, in an op whose result is merged as `groups`: a
// size per dim that stays, ones per merged dim. A value without parameters (a mask, positions) may
// be split where it is merged itself; for other values that would need a split, returns nullopt.
std::optional<SmallVector<int64_t>> unmergedShape(Value operand, const Groups &groups) {
  ArrayRef<int64_t> shape = shapeOf(operand);
  SmallVector<int64_t> unmerged;
  for (auto [size, group] : llvm::zip(shape, ArrayRef(groups).take_back(shape.size()))) {
    if (group.size() == 1)
      unmerged.push_back(size);
    else if (size == 1)
      unmerged.append(group.size(), 1);
    else if (!dependsOnParameter(operand))
      unmerged.append(group.begin(), group.end());
    else
      return std::nullopt;
  }
  return unmerged;
}

struct SinkThroughElementwise : RewritePattern {
  explicit SinkThroughElementwise(MLIRContext *context)
      : RewritePattern(MatchAnyOpTypeTag(), 1, context) {}

  LogicalResult matchAndRewrite(Operation *op, PatternRewriter &rewriter) const override {
    if (!isElementwise(op) && !isa<CastOp>(op))
      return failure();
    Value result = op->getResult(0);
    std::optional<Merge> merge;
    for (Value operand : op->getOperands())
      if (shapeOf(operand) == shapeOf(result) && !merge)
        merge = mergeOf(operand);
    if (!merge)
      return failure();
    auto source = [&](Value operand) {
      auto other = mergeOf(operand);
      return other && other->groups == merge->groups ? other->source : Value();
    };
    for (Value operand : op->getOperands())
      if (!source(operand) && !unmergedShape(operand, merge->groups))
        return rewriter.notifyMatchFailure(op, "an operand has no shape with the dims apart");
    SmallVector<Value> operands;
    for (Value operand : op->getOperands())
      if (Value unmerged = source(operand))
        operands.push_back(unmerged);
      else
        operands.push_back(
            Build(rewriter, op->getLoc()).reshape(operand, *unmergedShape(operand, merge->groups)));
    Operation *copy =
        cloneForTypes(rewriter, op, operands, typeWith(result, flatten(merge->groups)));
    rewriter.replaceOp(op, mergeAgain(rewriter, op->getLoc(), copy->getResult(0), result));
    return success();
  }
};

//===-- Ops on rows ---------------------------------------------------------===//

// Sinks merged leading dims through softmax and layer norm, which treat each row of the last dim
// alone.
struct SinkThroughRows : RewritePattern {
  explicit SinkThroughRows(MLIRContext *context)
      : RewritePattern(MatchAnyOpTypeTag(), 1, context) {}

  LogicalResult matchAndRewrite(Operation *op, PatternRewriter &rewriter) const override {
    if (!isa<SoftmaxOp, LayerNormOp>(op))
      return failure();
    auto merge = mergeOf(op->getOperand(0));
    if (!merge || merge->merges(merge->groups.size() - 1))
      return rewriter.notifyMatchFailure(op, "no dims are merged, or the dim of the rows is");
    SmallVector<Value> operands(op->getOperands());
    operands[0] = merge->source;
    SmallVector<Type> types;
    ArrayRef<int64_t> full = shapeOf(merge->source);
    for (Value result : op->getResults()) {
      bool perRow = typeOf(result).getRank() < static_cast<int64_t>(merge->groups.size());
      types.push_back(typeWith(result, perRow ? full.drop_back() : full));
    }
    Operation *copy = cloneForTypes(rewriter, op, operands, types);
    SmallVector<Value> results;
    for (auto [fresh, old] : llvm::zip(copy->getResults(), op->getResults()))
      results.push_back(mergeAgain(rewriter, op->getLoc(), fresh, old));
    rewriter.replaceOp(op, results);
    return success();
  }
};

struct SinkThroughReduce : OpRewritePattern<ReduceOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ReduceOp op, PatternRewriter &rewriter) const override {
    auto merge = mergeOf(op.getOperand());
    if (!merge || llvm::any_of(op.getDims(), [&](int64_t dim) { return merge->merges(dim); }))
      return rewriter.notifyMatchFailure(op, "no dims are merged, or a reduced dim is");
    SmallVector<int64_t> dims;
    for (int64_t dim : op.getDims())
      dims.push_back(merge->begin(dim));
    Value reduced = Build(rewriter, op.getLoc()).reduce(merge->source, op.getKind(), dims);
    rewriter.replaceOp(op, mergeAgain(rewriter, op.getLoc(), reduced, op.getResult()));
    return success();
  }
};

//===-- Movement ------------------------------------------------------------===//

struct SinkThroughSlice : OpRewritePattern<SliceOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(SliceOp op, PatternRewriter &rewriter) const override {
    auto merge = mergeOf(op.getOperand());
    if (!merge)
      return failure();
    SmallVector<int64_t> starts, limits, steps, shape;
    for (auto [dim, group] : llvm::enumerate(merge->groups)) {
      bool whole = shapeOf(op.getOperand())[dim] == shapeOf(op.getResult())[dim];
      if (group.size() > 1 && !whole)
        return rewriter.notifyMatchFailure(op, "slices a merged dim");
      for (int64_t size : group) {
        starts.push_back(whole ? 0 : op.getStarts()[dim]);
        limits.push_back(whole ? size : op.getLimits()[dim]);
        steps.push_back(whole ? 1 : op.getSteps()[dim]);
        shape.push_back(whole ? size : shapeOf(op.getResult())[dim]);
      }
    }
    Value sliced = SliceOp::create(rewriter, op.getLoc(), typeWith(op.getResult(), shape),
                                   merge->source, starts, limits, steps);
    rewriter.replaceOp(op, mergeAgain(rewriter, op.getLoc(), sliced, op.getResult()));
    return success();
  }
};

struct SinkThroughTranspose : OpRewritePattern<TransposeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(TransposeOp op, PatternRewriter &rewriter) const override {
    auto merge = mergeOf(op.getOperand());
    if (!merge)
      return failure();
    SmallVector<int64_t> order;
    for (int64_t dim : op.getPermutation())
      for (size_t i = 0; i < merge->groups[dim].size(); ++i)
        order.push_back(merge->begin(dim) + i);
    Value moved = Build(rewriter, op.getLoc()).transpose(merge->source, order);
    rewriter.replaceOp(op, mergeAgain(rewriter, op.getLoc(), moved, op.getResult()));
    return success();
  }
};

struct SinkThroughGather : OpRewritePattern<GatherOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(GatherOp op, PatternRewriter &rewriter) const override {
    auto merge = mergeOf(op.getIds());
    if (!merge)
      return failure();
    SmallVector<int64_t> shape(shapeOf(merge->source));
    llvm::append_range(shape, shapeOf(op.getTable()).drop_front());
    Value rows = GatherOp::create(rewriter, op.getLoc(), typeWith(op.getResult(), shape),
                                  op.getTable(), merge->source, op.getOffset());
    rewriter.replaceOp(op, mergeAgain(rewriter, op.getLoc(), rows, op.getResult()));
    return success();
  }
};

//===-- Matmul --------------------------------------------------------------===//

// Sinks merged dims through a matmul. A letter in one operand and the result is a free loop; one in
// both operands and the result (a batch) must be merged equally in both. Contracted dims stay
// merged.
struct SinkThroughMatmul : OpRewritePattern<MatmulOp> {
  using OpRewritePattern::OpRewritePattern;

  struct Side {
    std::string *letters;
    Value value;
    std::optional<Merge> merge;

    const SmallVector<int64_t, 2> *groupOf(char letter) const {
      size_t at = letters->find(letter);
      return merge && at != std::string::npos ? &merge->groups[at] : nullptr;
    }
  };

  static void expand(std::string &letters, char letter, StringRef by) {
    size_t at = letters.find(letter);
    if (at != std::string::npos)
      letters.replace(at, 1, by.str());
  }

  using Split = std::map<char, SmallVector<int64_t, 2>>;

  // Returns the letters that replace each letter of `split`; nullopt if letters run out.
  static std::optional<std::map<char, std::string>> lettersOf(const Equation &equation,
                                                              const Split &split) {
    std::string used = equation.lhs + equation.rhs;
    std::map<char, std::string> letters;
    for (const auto &[letter, group] : split) {
      std::string &by = letters[letter];
      for (by = letter; by.size() < group.size(); used += by.back()) {
        char fresh = freshLetter(used);
        if (!fresh)
          return std::nullopt;
        by += fresh;
      }
    }
    return letters;
  }

  LogicalResult matchAndRewrite(MatmulOp op, PatternRewriter &rewriter) const override {
    Equation equation = equationOf(op);
    Side sides[] = {{&equation.lhs, op.getLhs(), mergeOf(op.getLhs())},
                    {&equation.rhs, op.getRhs(), mergeOf(op.getRhs())}};
    Split split;
    for (char letter : equation.result) {
      const auto *left = sides[0].groupOf(letter), *right = sides[1].groupOf(letter);
      bool shared = has(equation.lhs, letter) && has(equation.rhs, letter);
      const auto *group = left ? left : right;
      if (group && group->size() > 1 && (!shared || (left && right && *left == *right)))
        split[letter] = *group;
    }
    if (split.empty())
      return rewriter.notifyMatchFailure(op, "no dim of the result is merged alike on both sides");
    auto letters = lettersOf(equation, split);
    if (!letters)
      return rewriter.notifyMatchFailure(op, "an equation of all dims has too few letters");

    // Compute shapes first: they need the old letters.
    Build build(rewriter, op.getLoc());
    for (Side &side : sides) {
      SmallVector<int64_t> shape;
      for (auto [letter, size] : llvm::zip(*side.letters, shapeOf(side.value))) {
        auto found = split.find(letter);
        if (found == split.end())
          shape.push_back(size);
        else
          llvm::append_range(shape, found->second);
      }
      if (side.merge)
        side.value = build.reshape(side.merge->source, shape);
    }
    for (auto &[letter, by] : *letters) {
      expand(equation.lhs, letter, by);
      expand(equation.rhs, letter, by);
      expand(equation.result, letter, by);
    }
    Value product =
        build.matmul(equation.str(), sides[0].value, sides[1].value, elementOf(op.getResult()));
    rewriter.replaceOp(op, mergeAgain(rewriter, op.getLoc(), product, op.getResult()));
    return success();
  }
};

} // namespace

void raise::populateSinkMerges(RewritePatternSet &patterns) {
  patterns.add<SinkThroughElementwise, SinkThroughRows, SinkThroughReduce, SinkThroughSlice,
               SinkThroughTranspose, SinkThroughGather, SinkThroughMatmul>(patterns.getContext());
}
