// Moves transposes towards the results, through every op that does not depend on the order of dims,
// until they meet the one that undoes them or a matmul.
#include "passes/1-raise/Constants.h"
#include "passes/1-raise/Patterns.h"

#include "mlir/Dialect/Utils/IndexingUtils.h"

using namespace mlir;
using namespace llmc;
using namespace llmc::graph;
using namespace llmc::raise;

using Order = SmallVector<int64_t>;

// Returns whether `order` moves only dims of size 1 past others.
static bool movesOnlyOnes(ArrayRef<int64_t> shape, ArrayRef<int64_t> order) {
  Order large;
  for (int64_t dim : order)
    if (shape[dim] != 1)
      large.push_back(dim);
  return llvm::is_sorted(large);
}

namespace {

// Describes an operand with reordered dims: `source` reshaped to `shape`, which moves no element,
// or transposed (`move`) if it is a constant.
struct Reordered {
  Value source;
  Order order, shape;
  bool move = false;
};

// Returns `value`, aligned at the last of `rank` dims, with its dims in the order `order`; nullopt
// if that would move elements of a value that is no constant.
std::optional<Reordered> reorder(Value value, size_t rank, ArrayRef<int64_t> order) {
  Reordered result{value, Order(order), {}};
  if (auto transpose = value.getDefiningOp<TransposeOp>();
      transpose && shapeOf(value).size() == rank) {
    result.source = transpose.getOperand();
    result.order = applyPermutation(transpose.getPermutation(), order);
  }
  SmallVector<int64_t> padded(rank - shapeOf(result.source).size(), 1);
  llvm::append_range(padded, shapeOf(result.source));
  result.shape = applyPermutation(padded, result.order);
  if (movesOnlyOnes(padded, result.order))
    return result;
  result.move = true;
  return denseValueOf(result.source) ? std::optional(result) : std::nullopt;
}

Value build(Build &build, const Reordered &operand) {
  if (shapeOf(operand.source).empty())
    return operand.source;
  if (!operand.move)
    return build.reshape(operand.source, operand.shape);
  SmallVector<int64_t> padded(operand.order.size() - shapeOf(operand.source).size(), 1);
  llvm::append_range(padded, shapeOf(operand.source));
  return build.transpose(build.reshape(operand.source, padded), operand.order);
}

struct ThroughElementwise : RewritePattern {
  explicit ThroughElementwise(MLIRContext *context)
      : RewritePattern(MatchAnyOpTypeTag(), 1, context) {}

  LogicalResult matchAndRewrite(Operation *op, PatternRewriter &rewriter) const override {
    if (!isElementwise(op) && !isa<CastOp>(op))
      return failure();
    ArrayRef<int64_t> shape = shapeOf(op->getResult(0));
    TransposeOp first;
    for (Value operand : op->getOperands())
      if (auto transpose = operand.getDefiningOp<TransposeOp>();
          transpose && !first && shapeOf(operand) == shape)
        first = transpose;
    if (!first)
      return failure();
    Order inverse = invertPermutationVector(first.getPermutation());
    SmallVector<Reordered> reordered;
    for (Value operand : op->getOperands()) {
      auto found = reorder(operand, shape.size(), inverse);
      if (!found)
        return rewriter.notifyMatchFailure(op, "an operand would need a transpose of its own");
      reordered.push_back(*found);
    }
    Build at(rewriter, op->getLoc());
    SmallVector<Value> operands;
    for (const Reordered &operand : reordered)
      operands.push_back(build(at, operand));
    auto type =
        RankedTensorType::get(applyPermutation(shape, inverse), elementOf(op->getResult(0)));
    Operation *copy = cloneForTypes(rewriter, op, operands, type);
    rewriter.replaceOpWithNewOp<TransposeOp>(op, op->getResultTypes()[0], copy->getResult(0),
                                             first.getPermutation());
    return success();
  }
};

// Sinks a transpose through ops that treat each row of the last dim alone.
struct ThroughRows : RewritePattern {
  explicit ThroughRows(MLIRContext *context) : RewritePattern(MatchAnyOpTypeTag(), 1, context) {}

  LogicalResult matchAndRewrite(Operation *op, PatternRewriter &rewriter) const override {
    if (!isa<SoftmaxOp, LayerNormOp, RmsNormOp>(op))
      return failure();
    auto transpose = op->getOperand(0).getDefiningOp<TransposeOp>();
    if (!transpose)
      return failure();
    ArrayRef<int64_t> permutation = transpose.getPermutation();
    int64_t last = permutation.size() - 1;
    if (permutation.back() != last)
      return rewriter.notifyMatchFailure(op, "transpose moves the dim of the rows");
    SmallVector<Value> operands(op->getOperands());
    operands[0] = transpose.getOperand();
    ArrayRef<int64_t> shape = shapeOf(operands[0]);
    SmallVector<Type> types;
    for (Value result : op->getResults())
      types.push_back(RankedTensorType::get(
          typeOf(result).getRank() == last ? shape.drop_back() : shape, elementOf(result)));
    Operation *copy = cloneForTypes(rewriter, op, operands, types);
    Build at(rewriter, op->getLoc());
    SmallVector<Value> results;
    for (Value result : copy->getResults())
      results.push_back(
          at.transpose(result, permutation.take_front(typeOf(result).getRank())));
    rewriter.replaceOp(op, results);
    return success();
  }
};

struct ThroughReduce : OpRewritePattern<ReduceOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ReduceOp op, PatternRewriter &rewriter) const override {
    auto transpose = op.getOperand().getDefiningOp<TransposeOp>();
    if (!transpose)
      return failure();
    Order dims = llvm::map_to_vector(
        op.getDims(), [&](int64_t dim) { return transpose.getPermutation()[dim]; });
    llvm::sort(dims);
    // Number the dims that stay as in the reduced operand.
    Order order;
    for (auto [i, dim] : llvm::enumerate(transpose.getPermutation()))
      if (!llvm::is_contained(dims, dim))
        order.push_back(dim - llvm::count_if(dims, [&, d = dim](int64_t r) { return r < d; }));
    Build at(rewriter, op.getLoc());
    Value reduced = at.reduce(transpose.getOperand(), op.getKind(), dims);
    rewriter.replaceOp(op, llvm::is_sorted(order) ? reduced : at.transpose(reduced, order));
    return success();
  }
};

struct ThroughSlice : OpRewritePattern<SliceOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(SliceOp op, PatternRewriter &rewriter) const override {
    auto transpose = op.getOperand().getDefiningOp<TransposeOp>();
    if (!transpose)
      return failure();
    Order inverse = invertPermutationVector(transpose.getPermutation());
    auto type = RankedTensorType::get(applyPermutation(shapeOf(op.getResult()), inverse),
                                      elementOf(op.getResult()));
    Value sliced = SliceOp::create(rewriter, op.getLoc(), type, transpose.getOperand(),
                                   applyPermutation(op.getStarts(), inverse),
                                   applyPermutation(op.getLimits(), inverse),
                                   applyPermutation(op.getSteps(), inverse));
    rewriter.replaceOpWithNewOp<TransposeOp>(op, op.getType(), sliced,
                                             transpose.getPermutation());
    return success();
  }
};

struct ThroughConcat : OpRewritePattern<ConcatOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ConcatOp op, PatternRewriter &rewriter) const override {
    auto first = op.getInputs()[0].getDefiningOp<TransposeOp>();
    if (!first)
      return failure();
    SmallVector<Value> parts;
    for (Value part : op.getInputs()) {
      auto transpose = part.getDefiningOp<TransposeOp>();
      if (!transpose || transpose.getPermutation() != first.getPermutation())
        return rewriter.notifyMatchFailure(op, "parts are not transposed alike");
      parts.push_back(transpose.getOperand());
    }
    Value joined =
        Build(rewriter, op.getLoc()).concat(parts, first.getPermutation()[op.getDim()]);
    rewriter.replaceOpWithNewOp<TransposeOp>(op, op.getType(), joined, first.getPermutation());
    return success();
  }
};

// Sinks a transpose through a reshape that splits dims or adds ones.
struct ThroughSplit : OpRewritePattern<ReshapeOp> {
  using OpRewritePattern::OpRewritePattern;

  // Returns the dims of `to` that each dim of `from` becomes; nullopt if dims are merged.
  static std::optional<SmallVector<Order>> groupsOf(ArrayRef<int64_t> from, ArrayRef<int64_t> to) {
    SmallVector<Order> groups;
    size_t next = 0;
    for (int64_t size : from) {
      Order &group = groups.emplace_back();
      int64_t product = 1;
      // Assign ones in front of a dim to it; a dim of 1 takes one of them.
      while (next < to.size() && (product < size || group.empty())) {
        product *= to[next];
        group.push_back(next++);
      }
      if (product != size)
        return std::nullopt;
    }
    while (next < to.size() && to[next] == 1 && !groups.empty())
      groups.back().push_back(next++);
    return next == to.size() ? std::optional(groups) : std::nullopt;
  }

  LogicalResult matchAndRewrite(ReshapeOp op, PatternRewriter &rewriter) const override {
    auto transpose = op.getOperand().getDefiningOp<TransposeOp>();
    ArrayRef<int64_t> from = shapeOf(op.getOperand()), to = shapeOf(op.getResult());
    if (!transpose || to.size() <= from.size())
      return failure();
    auto groups = groupsOf(from, to);
    if (!groups)
      return rewriter.notifyMatchFailure(op, "merges parts of dims");
    SmallVector<int64_t> shape;
    Order permutation(to.size());
    for (int64_t dim : invertPermutationVector(transpose.getPermutation()))
      for (int64_t part : (*groups)[dim]) {
        permutation[part] = shape.size();
        shape.push_back(to[part]);
      }
    Build at(rewriter, op.getLoc());
    Value split = at.reshape(transpose.getOperand(), shape);
    rewriter.replaceOpWithNewOp<TransposeOp>(op, op.getType(), split, permutation);
    return success();
  }
};

} // namespace

void raise::populateSinkTransposes(RewritePatternSet &patterns) {
  patterns.add<ThroughElementwise, ThroughRows, ThroughReduce, ThroughSlice, ThroughConcat,
               ThroughSplit>(patterns.getContext());
}
