// Folds movement of parameters into the views that locate them in their sources.
#include "dialects/graph/Strides.h"
#include "passes/1-raise/Constants.h"
#include "passes/1-raise/Equation.h"
#include "passes/1-raise/Parameters.h"
#include "passes/1-raise/Passes.h"
#include "passes/1-raise/Patterns.h"

#include "mlir/Dialect/Utils/IndexingUtils.h"

using namespace mlir;
using namespace llmc;
using namespace llmc::graph;
using namespace llmc::raise;

namespace llmc {
#define GEN_PASS_DEF_FOLDVIEWS
#include "passes/1-raise/Passes.h.inc"
} // namespace llmc

//===-- Views ---------------------------------------------------------------===//

static ViewAttr makeView(ViewAttr like, int64_t offset, ArrayRef<int64_t> strides) {
  return ViewAttr::get(like.getContext(), like.getSource(), offset, strides);
}

static ViewAttr slicedView(ViewAttr view, SliceOp slice) {
  int64_t offset = view.getOffset();
  SmallVector<int64_t> strides;
  for (auto [i, stride] : llvm::enumerate(view.getStrides())) {
    offset += slice.getStarts()[i] * stride;
    strides.push_back(stride * slice.getSteps()[i]);
  }
  return makeView(view, offset, strides);
}

static ViewAttr transposedView(ViewAttr view, ArrayRef<int64_t> permutation) {
  return makeView(view, view.getOffset(), applyPermutation(view.getStrides(), permutation));
}

// Returns the view of the same elements under another shape; null if no strides express it.
static ViewAttr reshapedView(ViewAttr view, ArrayRef<int64_t> from, ArrayRef<int64_t> to) {
  auto strides = stridesAfterReshape(from, view.getStrides(), to);
  return strides ? makeView(view, view.getOffset(), *strides) : ViewAttr();
}

// Returns the view that `op`, a use of a parameter, makes of it; null if it is no view.
static ViewAttr viewAfter(Operation *op, ViewAttr view) {
  if (auto slice = dyn_cast<SliceOp>(op))
    return slicedView(view, slice);
  if (auto transpose = dyn_cast<TransposeOp>(op))
    return transposedView(view, transpose.getPermutation());
  if (auto reshape = dyn_cast<ReshapeOp>(op))
    return reshapedView(view, shapeOf(reshape.getOperand()), shapeOf(reshape.getResult()));
  return {};
}

// Returns whether two views have the same elements, in any order of dims.
static bool sameElements(ViewAttr a, ArrayRef<int64_t> aShape, ViewAttr b,
                         ArrayRef<int64_t> bShape) {
  if (a.getSource() != b.getSource() || a.getOffset() != b.getOffset())
    return false;
  Extents left = extentsOf(a, aShape), right = extentsOf(b, bShape);
  llvm::sort(left);
  llvm::sort(right);
  return left == right;
}

namespace {

struct FoldViews : llmc::impl::FoldViewsBase<FoldViews> {
  void runOnOperation() override {
    for (auto func : getOperation().getOps<func::FuncOp>())
      if (!func.isExternal() && failed(run(func)))
        return signalPassFailure();
  }

  LogicalResult run(func::FuncOp func) {
    Parameters parameters(func);
    Block &block = func.getBody().front();
    bool changed = true;
    while (changed) {
      changed = false;
      for (unsigned i = 0, n = block.getNumArguments(); i < n; ++i)
        changed |= foldUses(parameters, block.getArgument(i));
      changed |= foldStacks(parameters, block);
      changed |= unifyEqualViews(parameters, func);
      parameters.commit();
      RewritePatternSet patterns(&getContext());
      populateDropIdentities(patterns);
      populateAbsorbTransposes(patterns);
      if (failed(applyToFixpoint(func, std::move(patterns))))
        return failure();
    }
    for (unsigned i = 0, n = block.getNumArguments(); i < n; ++i)
      orderDims(parameters, block.getArgument(i));
    parameters.eraseUnused();
    return success();
  }

  // Returns whether `slices` read each element of `parameter` once.
  static bool partition(ArrayRef<SliceOp> slices, BlockArgument parameter) {
    int64_t total = 0;
    for (SliceOp slice : slices)
      total += typeOf(slice.getResult()).getNumElements();
    if (total != typeOf(parameter).getNumElements())
      return false;
    for (size_t i = 0; i < slices.size(); ++i)
      for (size_t j = 0; j < i; ++j)
        if (!apart(slices[i], slices[j]))
          return false;
    return true;
  }
  static bool apart(SliceOp a, SliceOp b) {
    for (size_t dim = 0; dim < a.getStarts().size(); ++dim)
      if (a.getLimits()[dim] <= b.getStarts()[dim] || b.getLimits()[dim] <= a.getStarts()[dim])
        return true;
      else if (a.getSteps()[dim] == b.getSteps()[dim] && (a.getStarts()[dim] - b.getStarts()[dim]) % a.getSteps()[dim])
        return true; // interleaved
    return false;
  }

  // Replaces a parameter whose uses are all movement by one parameter for each moved view. Returns
  // whether it did.
  bool foldUses(Parameters &parameters, BlockArgument parameter) {
    ViewAttr view = parameters.viewOf(parameter);
    if (!view || parameter.use_empty())
      return false;
    // Group uses that make the same view.
    std::map<std::string, SmallVector<Operation *>> ways;
    SmallVector<SliceOp> slices;
    for (Operation *user : parameter.getUsers()) {
      ViewAttr after = viewAfter(user, view);
      if (!after)
        return false;
      std::string key;
      llvm::raw_string_ostream(key) << after << user->getResult(0).getType();
      auto &same = ways[key];
      same.push_back(user);
      if (auto slice = dyn_cast<SliceOp>(user); slice && same.size() == 1)
        slices.push_back(slice);
    }
    bool one = ways.size() == 1 && slices.empty();
    bool cut = slices.size() == ways.size() && partition(slices, parameter);
    if (!one && !cut)
      return false;
    for (auto &[key, users] : ways) {
      Operation *first = users.front();
      BlockArgument fresh = parameters.add(typeOf(first->getResult(0)), viewAfter(first, view),
                                           /*stacked=*/false, parameter.getLoc());
      for (Operation *user : users) {
        user->getResult(0).replaceAllUsesWith(fresh);
        user->erase();
      }
    }
    return true;
  }

  // Makes the matrices of experts, a parameter each, one with a view for each: [expert, ...], perhaps transposed
  // behind. Returns whether it did.
  static bool foldStacks(Parameters &parameters, Block &block) {
    bool changed = false;
    for (ConcatOp stack : llvm::make_early_inc_range(block.getOps<ConcatOp>())) {
      Value whole = stack.getResult();
      SmallVector<int64_t> order = llvm::to_vector(llvm::seq<int64_t>(shapeOf(whole).size()));
      if (auto transpose = whole.hasOneUse() ? dyn_cast<TransposeOp>(*whole.user_begin()) : TransposeOp()) {
        order.assign(transpose.getPermutation().begin(), transpose.getPermutation().end());
        whole = transpose.getResult();
      }
      if (order.size() != 3 || order[0] != int64_t(stack.getDim()) || stack->getNumOperands() < 2)
        continue;
      SmallVector<ViewAttr> views;
      for (Value part : stack->getOperands()) {
        ViewAttr view = parameters.viewOf(part);
        if (!view || !part.hasOneUse() || shapeOf(part)[order[0]] != 1)
          break;
        views.push_back(makeView(view, view.getOffset(), {view.getStrides()[order[1]], view.getStrides()[order[2]]}));
      }
      if (views.size() != stack->getNumOperands())
        continue;
      whole.replaceAllUsesWith(parameters.add(typeOf(whole), views, /*stacked=*/false, stack.getLoc()));
      changed = true;
    }
    // Their users are dead, and go before the parts are seen again.
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
      if (changed && isa<ConcatOp, TransposeOp>(op) && op.use_empty())
        op.erase();
    return changed;
  }

  // Keeps, of two parameters on the same elements, the one in the source's own order, and
  // transposes it for the uses of the other.
  bool unifyEqualViews(Parameters &parameters, func::FuncOp func) {
    std::map<std::pair<StringRef, int64_t>, SmallVector<BlockArgument>> seen;
    bool changed = false;
    for (BlockArgument argument : func.getArguments()) {
      ViewAttr view = parameters.viewOf(argument);
      if (!view || argument.use_empty())
        continue;
      auto &others = seen[{view.getSource().getValue(), view.getOffset()}];
      bool unified = false;
      for (BlockArgument &other : others)
        if (!unified && unify(parameters, other, argument))
          unified = changed = true;
      if (!unified)
        others.push_back(argument);
    }
    return changed;
  }

  static bool descends(ViewAttr view) {
    return llvm::is_sorted(view.getStrides(), std::greater<int64_t>());
  }

  // Makes `kept` serve both uses; it becomes `argument` if that is in the source's order.
  bool unify(Parameters &parameters, BlockArgument &kept, BlockArgument argument) {
    ViewAttr a = parameters.viewOf(kept), b = parameters.viewOf(argument);
    ArrayRef<int64_t> aShape = shapeOf(kept), bShape = shapeOf(argument);
    if (aShape.size() != bShape.size() || !sameElements(a, aShape, b, bShape))
      return false;
    BlockArgument from = kept, to = argument;
    if (!descends(a) && descends(b)) {
      std::swap(from, to);
      std::swap(a, b);
      std::swap(aShape, bShape);
    }
    // Dim i of `to` is dim order[i] of `from`.
    SmallVector<int64_t> order;
    for (size_t i = 0; i < bShape.size(); ++i)
      for (size_t j = 0; j < aShape.size(); ++j)
        if (!llvm::is_contained(order, j) && bShape[i] == aShape[j] &&
            (aShape[j] == 1 || a.getStrides()[j] == b.getStrides()[i])) {
          order.push_back(j);
          break;
        }
    if (order.size() != bShape.size())
      return false;
    if (llvm::is_sorted(order)) {
      to.replaceAllUsesWith(from);
    } else {
      OpBuilder builder = OpBuilder::atBlockBegin(from.getOwner());
      Value moved = Build(builder, to.getLoc()).transpose(from, order);
      to.replaceAllUsesWith(moved);
    }
    kept = from;
    return true;
  }

  // Returns the order of the parameter's dims in which `matmul` contracts it: the contracted ones
  // as in the other operand, then the others as in the result.
  static SmallVector<int64_t> orderFor(MatmulOp matmul, unsigned side) {
    Equation equation = equationOf(matmul);
    const std::string &own = side == 0 ? equation.lhs : equation.rhs;
    const std::string &other = side == 0 ? equation.rhs : equation.lhs;
    SmallVector<int64_t> order;
    for (char letter : other)
      if (has(own, letter) && !has(equation.result, letter))
        order.push_back(own.find(letter));
    for (char letter : equation.result)
      if (has(own, letter))
        order.push_back(own.find(letter));
    return order;
  }

  void orderDims(Parameters &parameters, BlockArgument parameter) {
    ViewAttr view = parameters.viewOf(parameter);
    if (!view || parameter.use_empty())
      return;
    std::optional<SmallVector<int64_t>> order;
    for (OpOperand &use : parameter.getUses()) {
      auto matmul = dyn_cast<MatmulOp>(use.getOwner());
      if (!matmul || matmul.getLhs() == matmul.getRhs())
        return;
      SmallVector<int64_t> wanted = orderFor(matmul, use.getOperandNumber());
      if (order && *order != wanted)
        return;
      order = wanted;
    }
    if (llvm::is_sorted(*order))
      return;
    SmallVector<int64_t> shape;
    for (int64_t dim : *order)
      shape.push_back(shapeOf(parameter)[dim]);
    BlockArgument fresh =
        parameters.add(RankedTensorType::get(shape, elementOf(parameter)),
                       transposedView(view, *order), /*stacked=*/false, parameter.getLoc());
    for (OpOperand &use : llvm::make_early_inc_range(parameter.getUses())) {
      auto matmul = cast<MatmulOp>(use.getOwner());
      Equation equation = equationOf(matmul);
      std::string &own = use.getOperandNumber() == 0 ? equation.lhs : equation.rhs;
      std::string permuted;
      for (int64_t dim : *order)
        permuted += own[dim];
      own = permuted;
      matmul.setEquation(equation.str());
      use.set(fresh);
    }
  }
};

} // namespace
