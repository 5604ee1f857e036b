// Checks annotations against the ops' sharding rules.
#include "dialects/parallel/Annotations.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace llmc;
using namespace llmc::parallel;
using graph::FactorKind;
using graph::ReduceKind;
using graph::ShardingRule;

FailureOr<SmallVector<Axes>> llmc::parallel::splitAxes(const ShardingRule &rule,
                                                       const graph::DimFactors &dim,
                                                       ArrayRef<StringAttr> axes, MeshAttr mesh) {
  SmallVector<Axes> parts(dim.size());
  if (axes.empty())
    return parts;
  if (dim.empty())
    return failure();
  if (dim.size() == 1) { // the only one: it may still need padding
    parts[0].assign(axes.begin(), axes.end());
    return parts;
  }
  size_t at = 0;
  int64_t left = rule.factors[dim[0]].size;
  for (StringAttr axis : axes) {
    int64_t size = mesh.getSize(axis.getValue());
    while (left == 1 && size > 1 && at + 1 < dim.size())
      left = rule.factors[dim[++at]].size;
    if (left % size != 0)
      return failure();
    left /= size;
    parts[at].push_back(axis);
  }
  return parts;
}

ShardingAttr llmc::parallel::shardingOf(MLIRContext *context, const graph::TensorFactors &dims,
                                        const FactorAxes &axes) {
  SmallVector<Axes> lists;
  for (const graph::DimFactors &dim : dims) {
    Axes &list = lists.emplace_back();
    for (unsigned factor : dim)
      list.append(axes[factor].begin(), axes[factor].end());
  }
  return makeSharding(context, lists);
}

static bool isReduced(FactorKind kind) {
  return kind == FactorKind::ReducedSum || kind == FactorKind::ReducedMax;
}

Axes llmc::parallel::unreducedOf(const ShardingRule &rule, const graph::TensorFactors &result,
                                 const FactorAxes &axes) {
  Axes unreduced, owned;
  for (auto [factor, list] : llvm::zip(rule.factors, axes))
    if (factor.kind == FactorKind::Owned)
      owned.append(list.begin(), list.end());
  for (unsigned factor = 0; factor < rule.factors.size(); ++factor) {
    bool carried = llvm::any_of(result, [&](const graph::DimFactors &dim) {
      return llvm::is_contained(dim, factor);
    });
    if (isReduced(rule.factors[factor].kind) && !carried)
      llvm::copy_if(axes[factor], std::back_inserter(unreduced),
                    [&](StringAttr axis) { return !llvm::is_contained(owned, axis); });
  }
  return unreduced;
}

ReduceKind llmc::parallel::unreducedKindOf(const ShardingRule &rule, const FactorAxes &axes) {
  for (auto [factor, list] : llvm::zip(rule.factors, axes))
    if (factor.kind == FactorKind::ReducedMax && !list.empty())
      return ReduceKind::max;
  return ReduceKind::sum;
}

//===-- One op --------------------------------------------------------------===//

// Checks A1 for the attribute `name` of an op, a list for tensors of `types`.
static LogicalResult verifyList(Operation *op, StringRef name, TypeRange types) {
  Attribute attr = op->getDiscardableAttr(name);
  if (!attr)
    return success();
  auto list = dyn_cast<ArrayAttr>(attr);
  if (!list || list.size() != types.size())
    return op->emitOpError("A1: `") << name << "` needs one sharding for each of " << types.size()
                                    << " values, got " << attr;
  MeshAttr mesh = getMesh(op);
  for (auto [i, pair] : llvm::enumerate(llvm::zip(list, types))) {
    auto sharding = dyn_cast<ShardingAttr>(std::get<0>(pair));
    auto type = dyn_cast<RankedTensorType>(std::get<1>(pair));
    if (!sharding || (type && static_cast<int64_t>(sharding.getDims().size()) != type.getRank()))
      return op->emitOpError("A1: entry ") << i << " of `" << name << "` does not fit "
                                           << std::get<1>(pair) << ", got " << std::get<0>(pair);
    auto verifyAxis = [&](StringAttr axis) -> LogicalResult {
      if (mesh && mesh.getIndex(axis.getValue()) >= 0)
        return success();
      return op->emitOpError("A1: axis ") << axis << " in `" << name << "` is not in the mesh";
    };
    for (ArrayAttr axes : sharding.getDims())
      for (StringAttr axis : axes.getAsRange<StringAttr>())
        if (failed(verifyAxis(axis)))
          return failure();
    for (StringAttr axis : sharding.getUnreduced())
      if (failed(verifyAxis(axis)))
        return failure();
  }
  return success();
}

namespace {
// Collects the axes of each factor, tensor by tensor.
struct FactorReader {
  Operation *op;
  const ShardingRule &rule;
  MeshAttr mesh;
  FactorAxes axes;
  SmallVector<bool> known;

  FactorReader(Operation *op, const ShardingRule &rule)
      : op(op), rule(rule), mesh(getMesh(op)), axes(rule.factors.size()),
        known(rule.factors.size(), false) {}

  LogicalResult read(ShardingAttr sharding, const graph::TensorFactors &dims, const Twine &what) {
    for (auto [d, list] : llvm::enumerate(getAxes(sharding))) {
      if (d >= dims.size())
        break;
      FailureOr<SmallVector<Axes>> parts = splitAxes(rule, dims[d], list, mesh);
      if (failed(parts))
        return op->emitOpError("A3: dim ") << d << " of " << what
                                           << " cannot be cut like this, got " << sharding;
      for (auto [factor, part] : llvm::zip(dims[d], *parts))
        if (failed(set(factor, part, d, what)))
          return failure();
    }
    return success();
  }

  LogicalResult set(unsigned factor, const Axes &part, size_t dim, const Twine &what) {
    if (rule.factors[factor].kind == FactorKind::Replicated && !part.empty())
      return op->emitOpError("A3: dim ") << dim << " of " << what << " must not be cut";
    if (known[factor] && axes[factor] != part)
      return op->emitOpError("A2: dim ") << dim << " of " << what
                                         << " is cut otherwise than the same factor before it";
    axes[factor] = part;
    known[factor] = true;
    return success();
  }
};
} // namespace

// Checks A5; returns the axes over which the operands are unreduced, if the rule lets them pass.
static FailureOr<Axes> passedThrough(Operation *op, const ShardingRule &rule) {
  Axes axes;
  SmallVector<unsigned> unreduced;
  for (OpOperand &use : op->getOpOperands()) {
    ShardingAttr sharding = getRequired(use);
    if (sharding.getUnreduced().empty())
      continue;
    Axes own(sharding.getUnreduced());
    if (!unreduced.empty() && own != axes)
      return op->emitOpError("A5: operands are unreduced over different axes");
    if (sharding.getKind() != ReduceKind::sum)
      return op->emitOpError("A5: only partial sums pass through an op");
    axes = own;
    unreduced.push_back(use.getOperandNumber());
  }
  if (unreduced.empty())
    return axes;
  for (const auto &set : rule.linearIn)
    if (llvm::equal(set, unreduced))
      return axes;
  return op->emitOpError("A5: the op is not linear in its unreduced operands together");
}

FailureOr<FactorAxes> llmc::parallel::readFactorAxes(Operation *op) {
  return readFactorAxes(op, cast<graph::GraphOpInterface>(op).getShardingRule());
}

FailureOr<FactorAxes> llmc::parallel::readFactorAxes(Operation *op, const ShardingRule &rule) {
  // Reads nothing where nothing is written: whatever the rule is, all is replicated.
  if (!op->getDiscardableAttr(kIn) && !op->getDiscardableAttr(kOut))
    return FactorAxes(rule.factors.size());
  if (failed(verifyList(op, kIn, op->getOperandTypes())) ||
      failed(verifyList(op, kOut, op->getResultTypes())))
    return failure();
  FactorReader reader(op, rule);
  for (auto [i, dims] : llvm::enumerate(rule.operands))
    if (failed(reader.read(getRequired(op->getOpOperand(i)), dims, "operand " + Twine(i))))
      return failure();
  for (auto [i, dims] : llvm::enumerate(rule.results))
    if (failed(reader.read(getSharding(op->getResult(i)), dims, "result " + Twine(i))))
      return failure();
  FailureOr<Axes> passed = passedThrough(op, rule);
  if (failed(passed))
    return failure();
  ReduceKind kind = unreducedKindOf(rule, reader.axes);
  for (OpResult result : op->getResults()) {
    Axes expected = unreducedOf(rule, rule.results[result.getResultNumber()], reader.axes);
    expected.append(passed->begin(), passed->end());
    ShardingAttr sharding = getSharding(result);
    // Looks first for an axis in two places, of which no sharding can be made.
    Axes places;
    for (ArrayAttr axes : sharding.getDims())
      llvm::append_range(places, axes.getAsRange<StringAttr>());
    for (StringAttr axis : expected) {
      if (llvm::is_contained(places, axis))
        return op->emitOpError("A4: result ")
               << result.getResultNumber() << " is " << sharding << ", and its rule leaves it unreduced over "
               << axis << ", too: an axis may cut one factor of an op";
      places.push_back(axis);
    }
    if (expected.empty() && sharding == sharding.getReduced())
      continue;
    if (withUnreduced(sharding, expected, kind) != sharding)
      return op->emitOpError("A4: result ")
             << result.getResultNumber() << " is " << sharding << ", its rule makes it "
             << withUnreduced(sharding, expected, kind);
  }
  return reader.axes;
}

//===-- A module ------------------------------------------------------------===//

static LogicalResult verifyRepeat(graph::RepeatOp op) {
  Block &body = op.getBlock();
  if (failed(verifyList(op, kIn, op->getOperandTypes())) ||
      failed(verifyList(op, kOut, op->getResultTypes())) ||
      failed(verifyList(op, kArgs, body.getArgumentTypes())) ||
      failed(verifyList(body.getTerminator(), kIn, body.getTerminator()->getOperandTypes())))
    return failure();
  unsigned carried = op.getCarried().size(), stacked = op.getStacked().size();
  auto agree = [&](ShardingAttr a, ShardingAttr b, const Twine &what) -> LogicalResult {
    if (a == b)
      return success();
    return op.emitOpError("A6: ") << what << " is " << a << " outside of the body and " << b
                                  << " inside";
  };
  for (OpOperand &use : op->getOpOperands()) {
    unsigned i = use.getOperandNumber();
    ShardingAttr outside = getRequired(use), inside = getSharding(body.getArgument(i));
    bool isStacked = i >= carried && i < carried + stacked;
    if (failed(agree(outside, isStacked ? addLeading(inside) : inside, "operand " + Twine(i))))
      return failure();
  }
  for (OpResult result : op->getResults()) {
    unsigned i = result.getResultNumber();
    ShardingAttr inside = getRequired(body.getTerminator()->getOpOperand(i));
    ShardingAttr outside = getSharding(result);
    if (failed(agree(outside, i < carried ? inside : addLeading(inside), "result " + Twine(i))))
      return failure();
    if (i < carried && failed(agree(getSharding(body.getArgument(i)), inside,
                                    "carried value " + Twine(i))))
      return failure();
  }
  return success();
}

LogicalResult llmc::parallel::verifyAnnotations(ModuleOp module) {
  SymbolTable symbols(module);
  WalkResult walk = module.walk([&](Operation *op) -> WalkResult {
    if (auto repeat = dyn_cast<graph::RepeatOp>(op))
      return verifyRepeat(repeat);
    if (isa<graph::GraphOpInterface>(op))
      return WalkResult(failed(readFactorAxes(op)) ? failure() : success());
    if (isa<func::ReturnOp>(op))
      return WalkResult(verifyList(op, kIn, op->getOperandTypes()));
    auto func = dyn_cast<func::FuncOp>(op);
    if (!func)
      return WalkResult::advance();
    for (BlockArgument arg : func.getArguments()) {
      auto name = func.getArgAttrOfType<FlatSymbolRefAttr>(arg.getArgNumber(), kState);
      auto state = name ? symbols.lookup<graph::StateOp>(name.getAttr()) : graph::StateOp();
      if (!state)
        continue;
      auto sharding = state->getAttrOfType<ShardingAttr>(kSharding);
      if (!sharding)
        sharding = ShardingAttr::getReplicated(
            module.getContext(), cast<RankedTensorType>(arg.getType()).getRank());
      if (getSharding(arg).getReduced() != sharding)
        return func.emitOpError("A7: argument ")
               << arg.getArgNumber() << " is " << getSharding(arg) << ", its state " << name
               << " is " << sharding;
    }
    return WalkResult::advance();
  });
  return failure(walk.wasInterrupted());
}
