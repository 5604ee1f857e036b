// A fused projection followed by slices is one projection per slice.
#include "passes/1-raise/Constants.h"
#include "passes/1-raise/Equation.h"
#include "passes/1-raise/Parameters.h"
#include "passes/1-raise/Passes.h"

using namespace mlir;
using namespace llmc;
using namespace llmc::graph;
using namespace llmc::raise;

namespace llmc {
#define GEN_PASS_DEF_SPLITFUSEDWEIGHTS
#include "passes/1-raise/Passes.h.inc"
} // namespace llmc

// The one dim that `slice` cuts, in steps of one.
static std::optional<int64_t> cutDim(SliceOp slice) {
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

// The slices that use `value`, sorted, if there are no other uses and they
// partition one dim. Equal slices count once but are all listed.
static SmallVector<SliceOp> partitionOf(Value value, int64_t &dim) {
  SmallVector<SliceOp> slices;
  std::optional<int64_t> common;
  for (Operation *user : value.getUsers()) {
    auto slice = dyn_cast<SliceOp>(user);
    auto cut = slice ? cutDim(slice) : std::nullopt;
    if (!cut || (common && *common != *cut))
      return {};
    common = cut;
    slices.push_back(slice);
  }
  if (!common)
    return {};
  dim = *common;
  llvm::sort(slices, [&](SliceOp a, SliceOp b) { return a.getStarts()[dim] < b.getStarts()[dim]; });
  int64_t reached = 0, start = 0;
  for (SliceOp slice : slices) {
    int64_t from = slice.getStarts()[dim], to = from + shapeOf(slice.getResult())[dim];
    bool again = from == start && to == reached;
    if (!again && from != reached)
      return {};
    start = from;
    reached = to;
  }
  return reached == shapeOf(value)[dim] ? slices : SmallVector<SliceOp>();
}

namespace {

struct SplitFusedWeights : llmc::impl::SplitFusedWeightsBase<SplitFusedWeights> {
  void runOnOperation() override {
    SmallVector<MatmulOp> products;
    getOperation().walk([&](MatmulOp op) { products.push_back(op); });
    for (MatmulOp product : products)
      split(product);
  }

  // `operand` of an op that is broadcast to `rank`, cut like dim `dim` of the result.
  static Value cut(Build &build, Value operand, int64_t rank, int64_t dim, SliceOp slice) {
    int64_t own = dim - (rank - typeOf(operand).getRank());
    if (own < 0 || shapeOf(operand)[own] == 1)
      return operand;
    return build.slice(operand, own, slice.getStarts()[dim],
                       slice.getStarts()[dim] + shapeOf(slice.getResult())[dim]);
  }

  void split(MatmulOp product) {
    // The product, or the sum with a bias that is all it is used for.
    Value whole = product.getResult();
    AddOp sum;
    if (whole.hasOneUse())
      if ((sum = dyn_cast<AddOp>(*whole.user_begin())))
        whole = sum.getResult();
    if (whole.getType() != product.getType())
      return;
    int64_t dim = 0;
    SmallVector<SliceOp> slices = partitionOf(whole, dim);
    if (slices.size() < 2)
      return;
    Equation equation = equationOf(product);
    char letter = equation.result[dim];
    bool left = has(equation.lhs, letter);
    if (left == has(equation.rhs, letter) || !isParameter(product->getOperand(left ? 0 : 1)))
      return;
    const std::string &letters = left ? equation.lhs : equation.rhs;
    Value weight = product->getOperand(left ? 0 : 1), other = product->getOperand(left ? 1 : 0);

    for (SliceOp slice : slices) {
      OpBuilder builder(slice);
      Build build(builder, product.getLoc());
      Value part = build.slice(weight, letters.find(letter), slice.getStarts()[dim],
                               slice.getStarts()[dim] + shapeOf(slice.getResult())[dim]);
      Value result = build.matmul(equation.str(), left ? part : other, left ? other : part,
                                  elementOf(product.getResult()));
      if (sum) {
        bool first = sum.getLhs() == product.getResult();
        Value bias = first ? sum.getRhs() : sum.getLhs();
        build.loc = sum.getLoc();
        Value biasPart = cut(build, bias, typeOf(whole).getRank(), dim, slice);
        result = first ? build.add(result, biasPart) : build.add(biasPart, result);
      }
      slice.replaceAllUsesWith(result);
      slice.erase();
    }
    if (sum)
      sum.erase();
    product.erase();
  }
};

} // namespace
