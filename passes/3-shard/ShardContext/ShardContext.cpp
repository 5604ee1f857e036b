// Implements tactic `context`: the sequence is cut at the inputs, whence the cut follows the rules of
// the ops to everything that has tokens. Attention alone sees all tokens of a row, and is cut by heads
// unless it is a ring.
#include "passes/3-shard/Passes.h"

#include "dialects/graph/Build.h"
#include "passes/3-shard/Propagation.h"

namespace llmc {
#define GEN_PASS_DEF_SHARDCONTEXT
#include "passes/3-shard/Passes.h.inc"

using namespace mlir;
using namespace parallel;
using graph::shapeOf;
namespace {

// Adds the nearest multiples of `parts` to an error.
InFlightDiagnostic &addNearest(InFlightDiagnostic &error, int64_t size, int64_t parts) {
  int64_t below = size / parts * parts;
  error << "; the nearest valid number" << (below ? "s are " : " is ");
  if (below)
    error << below << " and ";
  return error << below + parts << ", if the model has so many positions";
}

struct ShardContext : impl::ShardContextBase<ShardContext> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    MeshAttr mesh = getMesh(module);
    func::FuncOp func = getStepFunction(module);
    if (!mesh || !func) {
      module.emitError("tactic context needs @") << (isInference(module) ? "forward" : "micro") << " and parallel.mesh";
      return signalPassFailure();
    }
    parts = mesh.getSize(planfile::AxisRole::Context);
    if (parts == 1)
      return;
    AxisPropagation axis(module, mesh.getAxes(planfile::AxisRole::Context), {"context", /*mayCutStates=*/false});
    SmallVector<Operation *> attentions; // that are cut by heads
    bool anyRing = false;
    func.walk([&](Operation *op) {
      if (graph::isRing(op))
        anyRing = true;
      else if (isa<graph::AttentionOp, graph::AttentionGradOp>(op))
        attentions.push_back(op);
    });
    pinStates(func, axis);
    // Attention takes no cut from its neighbours: these have sequences.
    for (Operation *op : attentions)
      axis.exclude(op);
    bool ok = succeeded(cutTokens(func, axis));
    if (ok && attentions.empty() && !anyRing) {
      func.emitError("no attention is found whose heads or tokens cp = ") << parts << " ranks could share; use cp = 1";
      ok = false;
    }
    for (Operation *op : attentions)
      ok = ok && succeeded(cutHeads(op, axis));
    if (!ok)
      return signalPassFailure();
    axis.write();
  }

private:
  // Keeps sums of gradients whole: of a table of positions each rank has a part, which is gathered
  // before it is added to the sum.
  static void pinStates(func::FuncOp func, AxisPropagation &axis) {
    for (OpOperand &use : func.getBody().front().getTerminator()->getOpOperands())
      if (func.getResultAttr(use.getOperandNumber(), kState))
        for (int64_t d = 0; d < int64_t(shapeOf(use.get()).size()); ++d)
          axis.pin(use.get(), d);
  }

  // Cuts the inputs that have rows of tokens: [rows, tokens].
  LogicalResult cutTokens(func::FuncOp func, AxisPropagation &axis) {
    bool infer = isInference(getOperation()), found = false;
    for (BlockArgument arg : func.getArguments()) {
      auto name = func.getArgAttrOfType<StringAttr>(arg.getArgNumber(), kInput);
      if (!name || (infer && !func.getArgAttr(arg.getArgNumber(), kBatched)))
        continue;
      if (infer && shapeOf(arg).size() > 2)
        return func.emitError("input ") << name << " has " << shapeOf(arg).size()
                                        << " dimensions, as a cache of keys has; cp shares out whole sequences of tokens: use cp = 1";
      if (shapeOf(arg).size() != 2)
        continue;
      if (!axis.canCut(arg, 1)) {
        InFlightDiagnostic error = func.emitError("input ") << name << " has " << shapeOf(arg)[1]
                                   << " tokens in a row, which cp = " << parts << " ranks cannot share";
        return addNearest(error, shapeOf(arg)[1], parts);
      }
      axis.cut(arg, 1, name.getValue());
      found = true;
    }
    if (!found)
      return func.emitError("no input has rows of tokens that cp = ") << parts << " ranks could share; use cp = 1";
    return success();
  }

  LogicalResult cutHeads(Operation *op, AxisPropagation &axis) {
    unsigned q = isa<graph::AttentionGradOp>(op) ? 1 : 0; // then k and v
    const graph::ShardingRule &rule = axis.ruleOf(op);
    int64_t factor = axis.factorFor(op, rule.operands[q], 2, op->getOperand(q));
    if (factor < 0) {
      int64_t heads = shapeOf(op->getOperand(q))[2];
      int64_t tensor = getMesh(op).getSize(planfile::AxisRole::Tensor);
      InFlightDiagnostic error = op->emitOpError("has ") << heads << " heads, which cp = " << parts << " times tp = "
                                 << tensor << " ranks cannot share; valid sizes of cp are";
      for (int64_t size = 1; size <= heads; ++size)
        if (heads % (size * tensor) == 0)
          error << " " << size;
      return error;
    }
    ++numAttentions;
    // Cuts tokens behind attention, too, where no residual brings the cut there: [rows, tokens, heads, dim].
    for (Value result : op->getResults())
      if (shapeOf(result).size() == 4)
        axis.cut(result, 1, getNodeName(op->getLoc()));
    axis.take(op, factor, getNodeName(op->getLoc()));
    return success();
  }

  int64_t parts = 1;
};
} // namespace
} // namespace llmc
