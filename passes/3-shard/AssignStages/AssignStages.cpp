// Tactic `stages`: gives ops of @micro to pipeline stages.
#include "passes/3-shard/Passes.h"

#include "dialects/parallel/Annotations.h"

namespace llmc {
#define GEN_PASS_DEF_ASSIGNSTAGES
#include "passes/3-shard/Passes.h.inc"

using namespace mlir;
using namespace parallel;
namespace {

// Layers of each stage, see the pass description.
SmallVector<int64_t> divideLayers(int64_t layers, int64_t stages) {
  SmallVector<int64_t> counts(stages, layers / stages);
  int64_t rest = layers % stages;
  for (int64_t s = stages - 2; s >= 0 && rest > 0; --s, --rest)
    ++counts[s];
  return counts;
}

// Ops that need the result of one of `roots` (forward), or that they need (backward slice).
llvm::DenseSet<Operation *> closure(ArrayRef<Operation *> ops, bool users) {
  llvm::DenseSet<Operation *> members(ops.begin(), ops.end()), reached;
  SmallVector<Operation *> worklist;
  for (Operation *op : ops)
    if (isa<graph::RepeatOp>(op))
      worklist.push_back(op);
  auto reach = [&](Operation *op) {
    if (op && members.contains(op) && reached.insert(op).second)
      worklist.push_back(op);
  };
  while (!worklist.empty()) {
    Operation *op = worklist.pop_back_val();
    if (users)
      for (Operation *user : op->getUsers())
        reach(user);
    else
      for (Value operand : op->getOperands())
        reach(operand.getDefiningOp());
  }
  return reached;
}

void setStages(func::FuncOp micro, int64_t last) {
  SmallVector<Operation *> forward, backward;
  for (Operation &op : micro.getBody().front().without_terminator())
    (op.hasAttr(kBackward) ? backward : forward).push_back(&op);
  auto type = IntegerType::get(micro.getContext(), 64);
  // Before the layers: what they need. The rest (head, loss, token count) is behind them.
  llvm::DenseSet<Operation *> before = closure(forward, /*users=*/false);
  for (Operation *op : forward)
    if (!isa<graph::RepeatOp>(op))
      op->setAttr(kStage, IntegerAttr::get(type, before.contains(op) ? 0 : last));
  // Backward leaves the layers at stage 0; the rest belongs to the head.
  llvm::DenseSet<Operation *> after = closure(backward, /*users=*/true);
  for (Operation *op : backward)
    if (!isa<graph::RepeatOp>(op))
      op->setAttr(kStage, IntegerAttr::get(type, after.contains(op) ? 0 : last));
}

struct AssignStages : impl::AssignStagesBase<AssignStages> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    MeshAttr mesh = getMesh(module);
    auto micro = module.lookupSymbol<func::FuncOp>("micro");
    if (!mesh || !micro) {
      module.emitError("tactic stages needs @micro and parallel.mesh");
      return signalPassFailure();
    }
    int64_t stages = mesh.getSize("pp");
    SmallVector<graph::RepeatOp> repeats(micro.getBody().getOps<graph::RepeatOp>());
    if (stages > 1 && repeats.empty()) {
      module.emitError("pp = ") << stages
                                << " needs repeated layers to divide, and none were recognised; use pp = 1";
      return signalPassFailure();
    }
    for (graph::RepeatOp op : repeats) {
      if (int64_t(op.getCount()) < stages) {
        op.emitError("pp = ") << stages << " stages for " << op.getCount()
                              << " layers; every stage needs a layer, so pp is at most "
                              << op.getCount();
        return signalPassFailure();
      }
      op->setAttr(kLayers, DenseI64ArrayAttr::get(op.getContext(),
                                                  divideLayers(op.getCount(), stages)));
    }
    setStages(micro, stages - 1);
  }
};

} // namespace
} // namespace llmc
