// Implements tactic `tensor`: cuts blocks by columns, then rows, over the axis tp (Megatron-LM).
//
// For every matmul with a parameter, in program order, whose input is not cut yet: Follower follows
// a cut of its output features forward through the ops' rules; if it ends only in reductions, the
// tactic seeds it and propagates. Then the same for the rows of tables that inputs look up.
#include "passes/3-shard/Passes.h"

#include "dialects/graph/Build.h"
#include "llvm/ADT/SetVector.h"
#include "passes/3-shard/Propagation.h"
#include "passes/3-shard/ShardTensor/WantedCuts.h"

#include "llvm/Support/DebugLog.h"

#define DEBUG_TYPE "llmc-shard-tensor"

namespace llmc {
#define GEN_PASS_DEF_SHARDTENSOR
#include "passes/3-shard/Passes.h.inc"

using namespace mlir;
using namespace parallel;
using graph::FactorKind;
using graph::shapeOf;
namespace {

enum class Verdict {
  Cut,   // ends only in reductions, or leaves the program in parts
  Whole, // meets an op that needs the dimension whole, or leaves the program
};

// Follows a cut of one dimension of one value to where it ends.
class Follower {
public:
  Follower(const AxisPropagation &axis, int64_t parts) : axis(axis), parts(parts) {}

  // Returns whether the dimension must stay whole. A block is to have one reduction, at its end. If
  // a statistic of the cut dimension is used with it again before that (a norm of several ops),
  // every layer would have one in its middle as well, in both directions; the rule of a single norm
  // op requires the dimension whole for the same reason.
  bool needsWhole(Value value, int64_t dim) {
    return follow(value, dim) == Verdict::Whole || (contracts && hasStatisticBack());
  }

  // Returns the same for one use of the dimension.
  bool needsWhole(OpOperand &use, int64_t dim) {
    return followUse(use, dim) == Verdict::Whole || (contracts && hasStatisticBack());
  }

  // Records that the path selects by index along the dimension (a vocabulary), or ends in an
  // output: padding then changes no result.
  bool mayPad = false;
  // Holds the size of the major factor of a merged dimension, if it does not divide (else 0): heads
  // rather than the fewer kv heads, which can be repeated.
  int64_t blockedSize = 0;

private:
  Verdict follow(Value value, int64_t dim) {
    if (!seen.insert({value, dim}).second)
      return Verdict::Cut;
    for (OpOperand &use : value.getUses())
      // Backward ops mirror the forward ones: propagation reaches them from there.
      if (!use.getOwner()->hasAttr(kBackward) && followUse(use, dim) == Verdict::Whole)
        return Verdict::Whole;
    return Verdict::Cut;
  }

  Verdict followUse(OpOperand &use, int64_t dim) {
    Operation *user = use.getOwner();
    auto compute = dyn_cast<graph::GraphOpInterface>(user);
    if (auto yield = dyn_cast<graph::YieldOp>(user))
      return followYield(yield, use.getOperandNumber(), dim);
    if (!compute) {
      bool leaves = isOutput(use);
      mayPad |= leaves;
      return leaves ? Verdict::Cut : Verdict::Whole;
    }
    const graph::ShardingRule &rule = axis.ruleOf(user);
    const graph::DimFactors &dims = rule.operands[use.getOperandNumber()][dim];
    if (dims.empty())
      return Verdict::Whole;
    // A merged dimension is cut along its major factor: by heads, not inside one.
    unsigned factor = dims.front();
    const graph::Factor &info = rule.factors[factor];
    bool looksUp = rule.offsetFactor == int(factor);
    if (info.kind == FactorKind::Replicated || (looksUp && user->hasAttr(kKeepIndexedDim)))
      return Verdict::Whole;
    for (auto [operand, tensor] : llvm::zip(user->getOperands(), rule.operands))
      for (int64_t d = 0; d < int64_t(tensor.size()); ++d)
        if (llvm::is_contained(tensor[d], factor) && axis.isPinned(operand, d))
          return Verdict::Whole;
    bool divides = info.size % parts == 0;
    if (!divides && (dims.size() > 1 || (blockedSize && info.kind == FactorKind::Parallel)))
      blockedSize = std::max(blockedSize, info.size);
    if (!divides && meetsFixed(user, rule, factor))
      return Verdict::Whole;
    mayPad |= looksUp;
    if (info.kind != FactorKind::Parallel) {
      endIn(user, rule, factor);
      return Verdict::Cut;
    }
    for (auto [result, tensor] : llvm::zip(user->getResults(), rule.results))
      for (int64_t d = 0; d < int64_t(tensor.size()); ++d)
        if (llvm::is_contained(tensor[d], factor) &&
            (tensor[d].front() != factor || follow(result, d) == Verdict::Whole))
          return Verdict::Whole;
    return Verdict::Cut;
  }

  static bool carries(const graph::TensorFactors &tensor, unsigned factor) {
    return llvm::any_of(
        tensor, [&](const graph::DimFactors &dims) { return llvm::is_contained(dims, factor); });
  }

  // Records an op that reduces the factor: it contracts two operands over it, or takes a statistic
  // of one.
  void endIn(Operation *user, const graph::ShardingRule &rule, unsigned factor) {
    auto isPart = [&](const auto &tensor) { return carries(tensor, factor); };
    if (llvm::count_if(rule.operands, isPart) > 1)
      contracts = true;
    else if (rule.offsetFactor != int(factor))
      llvm::append_range(statistics, user->getResults());
  }

  // Returns whether a statistic, or a value computed from one, meets a cut value in one op.
  bool hasStatisticBack() const {
    llvm::DenseSet<Value> cut;
    for (auto [value, dim] : seen)
      cut.insert(value);
    llvm::SetVector<Value> from(statistics.begin(), statistics.end());
    for (size_t i = 0; i < from.size(); ++i)
      for (Operation *user : from[i].getUsers()) {
        if (user->hasAttr(kBackward) || !isa<graph::GraphOpInterface>(user))
          continue;
        if (llvm::any_of(user->getOperands(), [&](Value v) { return cut.contains(v); }))
          return true;
        from.insert(user->result_begin(), user->result_end());
      }
    return false;
  }

  // Returns whether an operand of the op that cannot be padded carries the factor.
  static bool meetsFixed(Operation *user, const graph::ShardingRule &rule, unsigned factor) {
    for (auto [operand, tensor] : llvm::zip(user->getOperands(), rule.operands)) {
      auto constant = operand.getDefiningOp<graph::ConstantOp>();
      auto arg = dyn_cast<BlockArgument>(operand);
      auto func = arg ? dyn_cast<func::FuncOp>(arg.getOwner()->getParentOp()) : func::FuncOp();
      bool isGiven = (constant && !constant.getValue().isSplat()) ||
                     (func && func.getArgAttr(arg.getArgNumber(), kInput));
      if (isGiven && carries(tensor, factor))
        return true;
    }
    return false;
  }

  // Returns whether the use is a result of an inference, whose parts are joined outside.
  static bool isOutput(OpOperand &use) {
    auto func = dyn_cast<func::FuncOp>(use.getOwner()->getParentOp());
    return func && isa<func::ReturnOp>(use.getOwner()) &&
           func.getResultAttr(use.getOperandNumber(), kOutput);
  }

  // Follows a stacked result, which may be cut as a residual; a carried value may not.
  Verdict followYield(graph::YieldOp yield, unsigned operand, int64_t dim) {
    auto repeat = cast<graph::RepeatOp>(yield->getParentOp());
    if (operand < repeat.getCarried().size())
      return Verdict::Whole;
    return follow(repeat->getResult(operand), dim + 1);
  }

  const AxisPropagation &axis;
  int64_t parts;
  llvm::DenseSet<std::pair<Value, int64_t>> seen;
  bool contracts = false;
  SmallVector<Value> statistics;
};

// Returns whether `value` is an argument bound to a parameter, or one layer of such an argument.
bool isParameter(Value value, const llvm::DenseSet<StringAttr> &parameters) {
  auto arg = dyn_cast<BlockArgument>(value);
  if (!arg)
    return false;
  Operation *parent = arg.getOwner()->getParentOp();
  if (auto repeat = dyn_cast<graph::RepeatOp>(parent))
    return isParameter(repeat->getOperand(arg.getArgNumber()), parameters);
  auto func = dyn_cast<func::FuncOp>(parent);
  auto name = func ? func.getArgAttrOfType<FlatSymbolRefAttr>(arg.getArgNumber(), kState)
                   : FlatSymbolRefAttr();
  return name && parameters.contains(name.getAttr());
}

// Returns whether the value depends on an input of the step.
bool isFed(Value value, llvm::DenseSet<Value> &seen) {
  if (!seen.insert(value).second)
    return false;
  if (Operation *op = value.getDefiningOp())
    return llvm::any_of(op->getOperands(), [&](Value operand) { return isFed(operand, seen); });
  auto arg = cast<BlockArgument>(value);
  auto func = dyn_cast<func::FuncOp>(arg.getOwner()->getParentOp());
  return func && func.getArgAttr(arg.getArgNumber(), kInput);
}

struct ShardTensor : impl::ShardTensorBase<ShardTensor> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    MeshAttr mesh = getMesh(module);
    func::FuncOp func = getStepFunction(module);
    if (!mesh || !func) {
      module.emitError("tactic tensor needs @")
          << (isInference(module) ? "forward" : "micro") << " and parallel.mesh";
      return signalPassFailure();
    }
    int64_t parts = mesh.getSize(planfile::AxisRole::Tensor);
    if (parts == 1)
      return;
    parameters.clear();
    for (auto state : module.getOps<graph::StateOp>())
      if (state.getRole() == graph::Role::parameter)
        parameters.insert(state.getSymNameAttr());
    AxisPropagation axis(module, mesh.getAxes(planfile::AxisRole::Tensor), {"tensor"});
    keepShared(func, axis, parts);
    bool ok = succeeded(seedWanted(func, axis, parts));
    func.walk<WalkOrder::PreOrder>([&](graph::MatmulOp op) {
      if (!op->hasAttr(kBackward) && axis.factorOf(op) < 0)
        ok &= succeeded(seed(op, axis, parts));
    });
    if (!ok)
      return signalPassFailure();
    func.walk<WalkOrder::PreOrder>([&](graph::GatherOp op) {
      if (!op->hasAttr(kBackward) && axis.factorOf(op) < 0)
        seedRows(op, axis, parts);
    });
    axis.write();
    getOperation().walk([](Operation *op) { op->removeAttr(kKeepIndexedDim); });
    numConflicts += axis.reportConflicts();
  }

  llvm::DenseSet<StringAttr> parameters; // names of the module's

  // Holds one use of a state, and by how much a dimension of the state is further right than its own.
  struct SharedUse {
    OpOperand *use;
    int64_t shift;
  };
  // Lists the uses of a value in the forward pass, also those in layers.
  static void listUses(Value value, int64_t shift, SmallVector<SharedUse> &uses) {
    for (OpOperand &use : value.getUses()) {
      auto repeat = dyn_cast<graph::RepeatOp>(use.getOwner());
      unsigned i = use.getOperandNumber();
      if (repeat && !repeat->hasAttr(kBackward)) {
        int64_t begin = repeat.getCarried().size(), end = begin + repeat.getStacked().size();
        listUses(repeat.getBlock().getArgument(i), shift + (int64_t(i) >= begin && int64_t(i) < end), uses);
      } else if (isa<graph::GraphOpInterface>(use.getOwner()) && !use.getOwner()->hasAttr(kBackward)) {
        uses.push_back({&use, shift});
      }
    }
  }

  // Keeps those dimensions of a state whole that one of its uses needs whole and another does not (one stored tensor
  // that is the bias of queries and of what attention gives): a cut would go on from one use to the other, where no
  // column is cut. A weight of products is what the tactic itself decides on.
  void keepShared(func::FuncOp func, AxisPropagation &axis, int64_t parts) {
    for (BlockArgument arg : func.getArguments()) {
      SmallVector<SharedUse> uses;
      if (isParameter(arg, parameters))
        listUses(arg, 0, uses);
      if (uses.size() < 2 || llvm::any_of(uses, [](const SharedUse &one) {
            return isa<graph::MatmulOp, graph::GroupedMatmulOp>(one.use->getOwner());
          }))
        continue;
      for (int64_t d = 0; d < int64_t(shapeOf(arg).size()); ++d) {
        size_t whole = llvm::count_if(uses, [&](const SharedUse &one) {
          return one.shift > d || Follower(axis, parts).needsWhole(*one.use, d - one.shift);
        });
        if (whole == 0 || whole == uses.size())
          continue;
        axis.keep(arg, d);
        keepSums(func, arg, d, axis);
      }
    }
  }

  // Keeps the sums whole by which the gradients of all uses of a state become one: each use gives its part as it
  // is cut, and a cut of one does not go on to another.
  void keepSums(func::FuncOp func, BlockArgument state, int64_t dim, AxisPropagation &axis) {
    auto name = func.getArgAttrOfType<FlatSymbolRefAttr>(state.getArgNumber(), kState);
    for (OpOperand &use : func.getBody().front().getTerminator()->getOpOperands()) {
      auto other = func.getResultAttrOfType<FlatSymbolRefAttr>(use.getOperandNumber(), kState);
      auto sum = other ? getOperation().lookupSymbol<graph::StateOp>(other.getAttr()) : graph::StateOp();
      if (sum && sum.getOfAttr() == name)
        keepSum(use.get(), dim, axis);
    }
  }

  // Keeps one sum whole, through the layers that carry or stack it.
  static void keepSum(Value value, int64_t dim, AxisPropagation &axis) {
    Operation *op = value.getDefiningOp();
    if (auto repeat = dyn_cast_or_null<graph::RepeatOp>(op)) {
      unsigned i = cast<OpResult>(value).getResultNumber();
      bool isCarried = i < repeat.getCarried().size();
      if (isCarried || dim > 0) // layers are cut by stages alone
        keepSum(repeat.getBlock().getTerminator()->getOperand(i), isCarried ? dim : dim - 1, axis);
      if (isCarried)
        keepSum(repeat->getOperand(i), dim, axis);
    } else if (isa_and_nonnull<graph::AddOp, graph::CastOp>(op)) {
      if (isa<graph::AddOp>(op))
        axis.keep(value, dim);
      for (Value operand : op->getOperands())
        keepSum(operand, dim, axis);
    }
  }

  // Seeds the cuts that the model's file asks for, before any that the use of weights suggests.
  // Emits an error that names both nodes where two of them conflict.
  static LogicalResult seedWanted(func::FuncOp func, AxisPropagation &axis, int64_t parts) {
    auto wanted = readWantedCuts(func, parts);
    if (failed(wanted))
      return failure();
    for (const WantedCut &one : *wanted)
      if (one.parts == 1)
        axis.pin(one.argument, one.dim);
    for (const WantedCut &one : *wanted) {
      if (one.parts == 1)
        continue;
      if (axis.canCut(one.argument, one.dim))
        axis.cut(one.argument, one.dim, one.node, "annotation");
      if (axis.dimOf(one.argument) == one.dim)
        continue;
      InFlightDiagnostic error = one.refuse(func);
      if (StringRef other = axis.seedOf(one.argument); !other.empty())
        return error << "; node '" << other << "' has it cut along dimension "
                     << axis.dimOf(one.argument);
      return error << ", which tp = " << parts << " ranks cannot share; choose a tp that divides "
                   << shapeOf(one.argument)[one.dim];
    }
    return success();
  }

  // Seeds a cut of the output features, the dimensions of the result that the weight alone has.
  // Heads come before their elements where these are two dimensions. Emits an error if a cut that
  // is right does not divide.
  LogicalResult seed(graph::MatmulOp op, AxisPropagation &axis, int64_t parts) {
    ModuleOp module = getOperation();
    for (unsigned weight : {1u, 0u}) {
      if (!isParameter(op->getOperand(weight), parameters))
        continue;
      const graph::ShardingRule &rule = axis.ruleOf(op);
      bool hasColumns = false;
      int64_t indivisible = 0; // heads or features that could be cut, but do not divide
      StringRef noun;
      for (int64_t d = 0; d < int64_t(rule.results[0].size()); ++d) {
        unsigned factor = rule.results[0][d].front();
        int64_t weightDim = -1;
        for (auto [i, dims] : llvm::enumerate(rule.operands[weight]))
          if (llvm::is_contained(dims, factor))
            weightDim = i;
        bool shared = llvm::any_of(rule.operands[1 - weight], [&](const graph::DimFactors &dims) {
          return llvm::is_contained(dims, factor);
        });
        if (weightDim < 0 || shared)
          continue;
        hasColumns = true;
        Columns columns = examine(op, axis, parts, op->getOperand(weight), weightDim, d);
        if (columns.mayCut && !columns.indivisible) {
          cutColumns(op, axis, parts, op->getOperand(weight), weightDim, d);
          return success();
        }
        if (columns.mayCut && !indivisible)
          std::tie(indivisible, noun) = std::pair(columns.indivisible, columns.noun);
      }
      if (indivisible)
        return refuse(op, indivisible, noun, parts);
      if (hasColumns)
        break;
    }
    return success();
  }

  struct Columns {
    bool mayCut = false;     // no user needs them whole
    int64_t indivisible = 0; // what the ranks cannot share
    StringRef noun;
  };
  Columns examine(graph::MatmulOp op, AxisPropagation &axis, int64_t parts, Value weight,
                  int64_t weightDim, int64_t resultDim) {
    Follower follower(axis, parts);
    if (axis.isPinned(weight, weightDim) || follower.needsWhole(op.getResult(), resultDim)) {
      LDBG() << "keeps dim " << resultDim << " of " << getNodeName(op.getLoc()) << " whole";
      return {};
    }
    int64_t size = shapeOf(weight)[weightDim];
    if (follower.blockedSize)
      return {true, follower.blockedSize, "heads"};
    return {true, size % parts != 0 && !follower.mayPad ? size : 0, "output features"};
  }

  static LogicalResult refuse(Operation *op, int64_t shared, StringRef noun, int64_t parts) {
    InFlightDiagnostic error = op->emitError("has ")
                               << shared << " " << noun << ", which tp = " << parts
                               << " ranks cannot share; valid sizes of tp are";
    for (int64_t n = 1; n <= shared && n <= 64; ++n)
      if (shared % n == 0)
        error << " " << n;
    return failure();
  }

  void cutColumns(graph::MatmulOp op, AxisPropagation &axis, int64_t parts, Value weight,
                  int64_t weightDim, int64_t resultDim) {
    if (shapeOf(weight)[weightDim] % parts != 0) {
      axis.allowPadding(weight, weightDim);
      axis.allowPadding(op.getResult(), resultDim);
    }
    ++numSeeds;
    LDBG() << "cuts columns of " << getNodeName(op.getLoc()) << ": dim " << weightDim << " of "
           << weight.getType();
    axis.cut(weight, weightDim, getNodeName(op.getLoc()));
  }

  // Seeds a cut of the rows of a table that is not cut yet (an embedding that is not the head's).
  void seedRows(graph::GatherOp op, AxisPropagation &axis, int64_t parts) {
    Value table = op.getTable();
    int64_t rows = cast<RankedTensorType>(table.getType()).getDimSize(0);
    llvm::DenseSet<Value> seen;
    Follower follower(axis, parts);
    if (!isParameter(table, parameters) || rows < parts || axis.isPinned(table, 0) ||
        !isFed(op.getIds(), seen) || follower.needsWhole(table, 0) || follower.blockedSize)
      return;
    if (rows % parts != 0)
      axis.allowPadding(table, 0);
    ++numSeeds;
    LDBG() << "cuts rows of " << getNodeName(op.getLoc()) << ": " << table.getType();
    axis.cut(table, 0, getNodeName(op.getLoc()));
  }
};

} // namespace
} // namespace llmc
