// Implements tactic `sequence`: cuts the sequence of token-wise values over the axis tp (Korthikanti
// et al., 2022, "Reducing Activation Recomputation in Large Transformer Models", section 4.2.2).
//
// The sequence is dimension 1 of the inputs, followed forward through the ops' rules. Each result of
// the forward pass that is a partial sum over tp and has a sequence is a seed; the rest follows by
// propagation, which stops at ops that use the axis already: there the value is gathered.
#include "passes/3-shard/Passes.h"

#include "dialects/graph/Build.h"
#include "passes/3-shard/Propagation.h"
#include "passes/3-shard/SequenceDims.h"

namespace llmc {
#define GEN_PASS_DEF_SHARDSEQUENCE
#include "passes/3-shard/Passes.h.inc"

using namespace mlir;
using namespace parallel;
namespace {

struct ShardSequence : impl::ShardSequenceBase<ShardSequence> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    MeshAttr mesh = getMesh(module);
    func::FuncOp func = getStepFunction(module);
    bool infer = isInference(module);
    if (!mesh || !func) {
      module.emitError("tactic sequence needs @")
          << (infer ? "forward" : "micro") << " and parallel.mesh";
      return signalPassFailure();
    }
    int64_t parts = mesh.getSize(planfile::AxisRole::Tensor);
    if (parts == 1)
      return;
    auto axes = mesh.getAxes(planfile::AxisRole::Tensor);
    AxisPropagation axis(module, axes, {"sequence", /*mayCutStates=*/false});
    SequenceDims sequence(axis);
    sequence.followInputs(func, infer);
    pinGradients(func, axis);
    excludeNeighbours(func, axis, axes);
    bool ok = true;
    func.walk<WalkOrder::PreOrder>([&](Operation *op) {
      if (ok && isa<graph::MatmulOp, graph::GatherOp>(op) && !op->hasAttr(kBackward))
        for (Value result : op->getResults())
          if (isPartial(result, axes))
            ok &= succeeded(seed(result, sequence.of(result), axis, parts));
    });
    if (!ok)
      return signalPassFailure();
    axis.write();
  }

  // Keeps gradients of states whole along the sequence (learned positions): states are not cut, so a
  // part would have to be gathered in each micro-batch. The cotangent is whole anyway where it ends
  // in an embedding.
  static void pinGradients(func::FuncOp func, AxisPropagation &axis) {
    SmallVector<Value> work;
    for (OpOperand &use : func.getBody().front().getTerminator()->getOpOperands())
      if (func.getResultAttr(use.getOperandNumber(), kState))
        work.push_back(use.get());
    while (!work.empty()) {
      Operation *op = work.pop_back_val().getDefiningOp();
      if (!op || !op->hasAttr(kBackward) || !isa<graph::GraphOpInterface>(op))
        continue;
      for (Value result : op->getResults())
        for (int64_t d = 0; d < int64_t(graph::shapeOf(result).size()); ++d)
          axis.pin(result, d);
      auto compute = cast<graph::GraphOpInterface>(op);
      graph::EmitClass kind = compute.getEmitClass();
      if (isa<graph::AddOp, graph::CastOp>(op) || kind == graph::EmitClass::Movement ||
          kind == graph::EmitClass::Alias)
        llvm::append_range(work, op->getOperands());
    }
  }

  // Returns the state that an argument is bound to, also of a layer; null if it is none.
  static Attribute stateOf(Value value) {
    auto arg = dyn_cast<BlockArgument>(value);
    Operation *parent = arg ? arg.getOwner()->getParentOp() : nullptr;
    if (auto repeat = dyn_cast_or_null<graph::RepeatOp>(parent))
      return stateOf(repeat->getOperand(arg.getArgNumber()));
    auto func = dyn_cast_or_null<func::FuncOp>(parent);
    return func ? func.getArgAttr(arg.getArgNumber(), kState) : Attribute();
  }

  // Keeps a product whole that reads what a product beside it has gathered (keys whose heads ranks
  // share, beside queries), and the products of its gradient: a part of it would be gathered once
  // more.
  static void excludeNeighbours(func::FuncOp func, AxisPropagation &axis, ArrayRef<StringAttr> axes) {
    auto isCut = [&](Operation *op) {
      return isa<graph::MatmulOp>(op) && axis.usesAxis(op, axes.front());
    };
    llvm::DenseSet<Attribute> weights;
    func.walk([&](graph::MatmulOp op) {
      if (isCut(op))
        return;
      for (Value operand : op->getOperands())
        if (!stateOf(operand) && llvm::any_of(operand.getUsers(), isCut)) {
          axis.exclude(op);
          for (Value other : op->getOperands())
            if (Attribute weight = stateOf(other))
              weights.insert(weight);
        }
    });
    func.walk([&](graph::MatmulOp op) {
      if (op->hasAttr(kBackward) && llvm::any_of(op->getOperands(), [&](Value operand) {
            return weights.contains(stateOf(operand));
          }))
        axis.exclude(op);
    });
  }

  // Returns whether the value is defined as partial sums over all of the axes.
  static bool isPartial(Value value, ArrayRef<StringAttr> axes) {
    ShardingAttr sharding = getSharding(value);
    return sharding.getKind() == graph::ReduceKind::sum && llvm::all_of(axes, [&](StringAttr axis) {
             return sharding.isUnreducedOver(axis.getValue());
           });
  }

  LogicalResult seed(Value value, int64_t dim, AxisPropagation &axis, int64_t parts) {
    if (dim < 0 || axis.dimOf(value) >= 0)
      return success();
    StringRef node = getNodeName(value.getLoc());
    int64_t tokens = graph::shapeOf(value)[dim];
    if (!axis.canCut(value, dim)) {
      int64_t below = tokens / parts * parts;
      auto error = value.getDefiningOp()->emitError("has a sequence of ")
                   << tokens << " tokens, which tp = " << parts
                   << " ranks cannot share; the nearest valid size";
      if (below)
        error << "s are " << below << " and ";
      else
        error << " is ";
      return error << below + parts;
    }
    ++numSeeds;
    axis.cut(value, dim, node);
    return success();
  }
};
} // namespace
} // namespace llmc
