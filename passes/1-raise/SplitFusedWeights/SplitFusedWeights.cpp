// Splits a fused projection, of all tokens or of experts, that slices follow into one per slice.
#include "passes/1-raise/Constants.h"
#include "passes/1-raise/Equation.h"
#include "passes/1-raise/Parameters.h"
#include "passes/1-raise/Passes.h"

#include "mlir/Transforms/RegionUtils.h"

using namespace mlir;
using namespace llmc;
using namespace llmc::graph;
using namespace llmc::raise;

namespace llmc {
#define GEN_PASS_DEF_SPLITFUSEDWEIGHTS
#include "passes/1-raise/Passes.h.inc"
} // namespace llmc

namespace {

// Describes a slice of the fused result, which cuts one dim of `Cuts::shape`.
struct Cut {
  SliceOp slice;
  TransposeOp transpose; // between the result and the slice; may be null
  int64_t dim = 0, start = 0, limit = 0;
};

// Lists all uses of the fused result, whose last dim may be split first.
struct Cuts {
  SmallVector<int64_t> shape;
  SmallVector<Cut> list;
};

// Returns the one dim that `slice` cuts, in steps of one; nullopt if there is none or several.
std::optional<int64_t> cutDim(SliceOp slice) {
  std::optional<int64_t> cut;
  ArrayRef<int64_t> from = shapeOf(slice.getOperand()), to = shapeOf(slice.getResult());
  for (size_t i = 0; i < from.size(); ++i) {
    if (from[i] == to[i])
      continue;
    if (cut || slice.getSteps()[i] != 1)
      return std::nullopt;
    cut = i;
  }
  return cut;
}

// Adds the uses of `value` to `cuts`; fails if they are not all slices, transposed before or not.
bool addUses(Value value, TransposeOp transpose, Cuts &cuts) {
  for (Operation *user : value.getUsers()) {
    auto inner = dyn_cast<TransposeOp>(user);
    if (inner && !transpose && addUses(inner.getResult(), inner, cuts))
      continue;
    auto slice = dyn_cast<SliceOp>(user);
    auto dim = slice ? cutDim(slice) : std::nullopt;
    if (!dim)
      return false;
    int64_t start = slice.getStarts()[*dim];
    cuts.list.push_back({slice, transpose, transpose ? transpose.getPermutation()[*dim] : *dim,
                         start, start + shapeOf(slice.getResult())[*dim]});
  }
  return true;
}

// Sorts the slices and returns whether they partition one dim. Equal slices count once.
bool partition(Cuts &cuts) {
  if (cuts.list.size() < 2)
    return false;
  int64_t dim = cuts.list[0].dim, reached = 0, start = 0;
  llvm::stable_sort(cuts.list, [](const Cut &a, const Cut &b) { return a.start < b.start; });
  for (const Cut &cut : cuts.list) {
    bool again = cut.start == start && cut.limit == reached;
    if (cut.dim != dim || (!again && cut.start != reached))
      return false;
    start = cut.start;
    reached = cut.limit;
  }
  return reached == cuts.shape[dim];
}

// Returns the uses of `value` if they are slices that partition it, else nullopt. `reshapes` gets
// the equal reshapes in between, if there are any.
std::optional<Cuts> cutsOf(Value value, SmallVectorImpl<ReshapeOp> &reshapes) {
  ArrayRef<int64_t> shape = shapeOf(value);
  Cuts cuts;
  for (Operation *user : value.getUsers())
    if (auto reshape = dyn_cast<ReshapeOp>(user))
      reshapes.push_back(reshape);
  if (reshapes.empty()) {
    cuts.shape.assign(shape.begin(), shape.end());
    if (!addUses(value, {}, cuts))
      return std::nullopt;
  } else {
    ArrayRef<int64_t> split = shapeOf(reshapes[0].getResult());
    size_t leading = shape.size() - 1;
    bool same = llvm::all_of(value.getUsers(), [&](Operation *user) {
      return isa<ReshapeOp>(user) && user->getResult(0).getType() == reshapes[0].getType();
    });
    if (!same || split.size() <= leading || split.take_front(leading) != shape.drop_back())
      return std::nullopt;
    cuts.shape.assign(split.begin(), split.end());
    for (ReshapeOp reshape : reshapes)
      if (!addUses(reshape.getResult(), {}, cuts))
        return std::nullopt;
  }
  return partition(cuts) ? std::optional(cuts) : std::nullopt;
}

// Describes one cut of tensors with a fused dim, which is seen as several dims of `sizes`.
struct Part {
  SmallVector<int64_t> sizes; // of the fused dim
  size_t dim = 0;             // of `sizes` that is cut
  int64_t start = 0, limit = 0;

  // Returns whether the part is contiguous in the fused dim.
  bool isRun() const {
    return llvm::all_of(ArrayRef(sizes).take_front(dim), [](int64_t size) { return size == 1; });
  }

  // Returns the part of dim `at` of `value`: one dim if it is contiguous, else as many as `sizes`.
  Value of(Build &build, Value value, size_t at) const {
    if (isRun()) {
      int64_t rest = 1;
      for (int64_t size : ArrayRef(sizes).drop_front(dim + 1))
        rest *= size;
      return build.slice(value, at, start * rest, limit * rest);
    }
    SmallVector<int64_t> shape(shapeOf(value).take_front(at));
    shape.append(sizes.begin(), sizes.end());
    llvm::append_range(shape, shapeOf(value).drop_front(at + 1));
    return build.slice(build.reshape(value, shape), at + dim, start, limit);
  }
};

struct SplitFusedWeights : llmc::impl::SplitFusedWeightsBase<SplitFusedWeights> {
  void runOnOperation() override {
    SmallVector<MatmulOp> products;
    getOperation().walk([&](MatmulOp op) { products.push_back(op); });
    for (MatmulOp product : products)
      split(product);
    SmallVector<GroupedMatmulOp> ofExperts;
    getOperation().walk([&](GroupedMatmulOp op) { ofExperts.push_back(op); });
    for (GroupedMatmulOp product : ofExperts)
      split(product);
    IRRewriter rewriter(&getContext());
    (void)runRegionDCE(rewriter, getOperation()->getRegions());
  }

  // Returns `equation` with `count` letters in place of one; nullopt if letters run out.
  static std::optional<Equation> withLetters(Equation equation, char letter, size_t count) {
    std::string letters(1, letter);
    while (letters.size() < count) {
      char fresh = freshLetter(equation.lhs + equation.rhs + equation.result + letters);
      if (!fresh)
        return std::nullopt;
      letters += fresh;
    }
    for (std::string *own : {&equation.lhs, &equation.rhs, &equation.result})
      if (size_t at = own->find(letter); at != std::string::npos)
        own->replace(at, 1, letters);
    return equation;
  }

  // Returns whether `bias` is a vector of the fused dim, which an op broadcasts.
  static bool isBias(Value bias, int64_t size) {
    ArrayRef<int64_t> shape = shapeOf(bias);
    return !shape.empty() && shape.back() == size &&
           llvm::all_of(shape.drop_back(), [](int64_t other) { return other == 1; });
  }

  void split(MatmulOp product) {
    Equation equation = equationOf(product);
    if (equation.result.empty())
      return;
    // Begin at the product, or at the sum with a bias that is its only use.
    Value whole = product.getResult();
    int64_t fused = shapeOf(whole).back();
    AddOp sum;
    Value bias;
    if (whole.hasOneUse() && (sum = dyn_cast<AddOp>(*whole.user_begin()))) {
      bias = sum.getLhs() == whole ? sum.getRhs() : sum.getLhs();
      whole = sum.getResult();
      if (whole.getType() != product.getType() || !(isBias(bias, fused) || scalarOf(bias)))
        return;
    }
    SmallVector<ReshapeOp> reshapes;
    auto cuts = cutsOf(whole, reshapes);
    if (!cuts)
      return;
    size_t leading = equation.result.size() - 1, dim = cuts->list[0].dim;
    char letter = equation.result.back();
    bool left = has(equation.lhs, letter);
    if (dim < leading || left == has(equation.rhs, letter) ||
        !isParameter(product->getOperand(left ? 0 : 1)))
      return;
    for (const Cut &cut : cuts->list)
      if (!replace(product, bias, *cuts, cut, leading))
        return;
    ++numSplit;
  }

  static bool replace(MatmulOp product, Value bias, const Cuts &cuts, const Cut &cut,
                      size_t leading) {
    Part part{SmallVector<int64_t>(ArrayRef(cuts.shape).drop_front(leading)),
              size_t(cut.dim) - leading, cut.start, cut.limit};
    Equation whole = equationOf(product);
    char letter = whole.result.back();
    auto equation = withLetters(whole, letter, part.isRun() ? 1 : part.sizes.size());
    if (!equation)
      return false;
    SliceOp slice = cut.slice;
    OpBuilder builder(slice);
    Build build(builder, product.getLoc());
    bool left = has(whole.lhs, letter);
    const std::string &letters = left ? whole.lhs : whole.rhs;
    Value weight = part.of(build, product->getOperand(left ? 0 : 1), letters.find(letter));
    Value other = product->getOperand(left ? 1 : 0);
    Value result = build.matmul(equation->str(), left ? weight : other, left ? other : weight,
                                elementOf(product.getResult()));
    if (bias) {
      build.loc = bias.getLoc();
      Value own = bias;
      if (!shapeOf(bias).empty() && shapeOf(bias).back() != 1)
        own = part.of(build, build.reshape(bias, {shapeOf(bias).back()}), 0);
      result = build.add(result, own);
    }
    SmallVector<int64_t> shape = cuts.shape;
    shape[cut.dim] = cut.limit - cut.start;
    result = build.reshape(result, shape);
    if (TransposeOp transpose = cut.transpose)
      result = build.transpose(result, transpose.getPermutation());
    slice.replaceAllUsesWith(result);
    return true;
  }

  // Returns whether the slices read each feature of `value`, its last dim, once or all equally often.
  static bool shareFeatures(Value value, ArrayRef<SliceOp> slices) {
    ArrayRef<int64_t> shape = shapeOf(value);
    std::set<std::tuple<int64_t, int64_t, int64_t>> parts;
    SmallVector<int> seen(shape.back(), 0);
    for (SliceOp slice : slices) {
      int64_t start = slice.getStarts().back(), step = slice.getSteps().back(), count = shapeOf(slice.getResult()).back();
      if (shapeOf(slice.getResult()).drop_back() != shape.drop_back() || count == shape.back())
        return false;
      if (parts.insert({start, step, count}).second)
        for (int64_t i = 0; i < count; ++i)
          ++seen[start + i * step];
    }
    return !parts.empty() && llvm::all_of(seen, [](int times) { return times == 1; });
  }

  // Splits a product by experts, and the sum with the biases of the experts that is its only use.
  void split(GroupedMatmulOp product) {
    Value whole = product.getResult();
    GatherOp biases;
    if (auto sum = whole.hasOneUse() ? dyn_cast<AddOp>(*whole.user_begin()) : AddOp()) {
      biases = (sum.getLhs() == whole ? sum.getRhs() : sum.getLhs()).getDefiningOp<GatherOp>();
      if (!biases || biases.getIds() != product.getRoutes() || biases.getOffset() || !isParameter(biases.getTable()) ||
          biases.getResult().getType() != sum.getResult().getType())
        return;
      whole = sum.getResult();
    }
    SmallVector<SliceOp> slices;
    for (Operation *user : whole.getUsers())
      slices.push_back(dyn_cast<SliceOp>(user));
    if (llvm::is_contained(slices, SliceOp()) || !shareFeatures(whole, slices) ||
        !isParameter(beforeTranspose(product.getWeights())))
      return;
    for (SliceOp slice : slices) {
      OpBuilder builder(slice);
      Build build(builder, product.getLoc());
      Value weights = part(build, product.getWeights(), product.getTransposed() ? 1 : 2, slice);
      auto type = typeOf(slice.getResult());
      Value result = GroupedMatmulOp::create(builder, product.getLoc(), type, product.getOperand(), weights,
                                             product.getRoutes(), product.getOffset(), product.getTransposed(),
                                             product.getExchanged());
      if (biases) {
        Value table = part(build, biases.getTable(), 1, slice);
        Value bias = GatherOp::create(builder, biases.getLoc(), type, table, biases.getIds(), Value());
        result = build.add(result, bias);
      }
      slice.replaceAllUsesWith(result);
    }
    ++numSplit;
  }

  static Value beforeTranspose(Value value) {
    auto transpose = value.getDefiningOp<TransposeOp>();
    return transpose ? transpose.getOperand() : value;
  }

  // Returns the part of dim `dim` of a parameter, perhaps transposed, that `slice` takes of the last dim of a
  // product.
  static Value part(Build &build, Value parameter, size_t dim, SliceOp slice) {
    if (auto transpose = parameter.getDefiningOp<TransposeOp>()) {
      ArrayRef<int64_t> order = transpose.getPermutation();
      return build.transpose(part(build, transpose.getOperand(), order[dim], slice), order);
    }
    SmallVector<int64_t> shape(shapeOf(parameter)), starts(shape.size(), 0), limits(shape), steps(shape.size(), 1);
    starts[dim] = slice.getStarts().back();
    limits[dim] = slice.getLimits().back();
    steps[dim] = slice.getSteps().back();
    shape[dim] = shapeOf(slice.getResult()).back();
    return SliceOp::create(build.builder, build.loc, RankedTensorType::get(shape, elementOf(parameter)), parameter, starts,
                           limits, steps);
  }
};

} // namespace
