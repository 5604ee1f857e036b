// Tactic `stages`: gives ops of a step's function to pipeline stages.
#include "passes/3-shard/Passes.h"

#include "dialects/parallel/Annotations.h"
#include "passes/3-shard/AssignStages/SplitStacks.h"

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

// The last stage whose forward values the op needs, -1 if it needs none. Layers
// end at stage `last`.
int64_t stageOfOperands(Operation *op, const DenseMap<Operation *, int64_t> &stages, int64_t last) {
  int64_t stage = -1;
  for (Value operand : op->getOperands()) {
    Operation *producer = operand.getDefiningOp();
    if (!producer || producer->hasAttr(kBackward))
      continue;
    if (auto repeat = dyn_cast<graph::RepeatOp>(producer)) {
      std::optional<int64_t> part = stageOfStackedSlice(op);
      stage = std::max(stage, part ? *part : last);
    } else {
      stage = std::max(stage, stages.lookup_or(producer, -1));
    }
  }
  return stage;
}

void setStages(func::FuncOp func, int64_t last) {
  SmallVector<Operation *> forward, backward;
  for (Operation &op : func.getBody().front().without_terminator())
    (op.hasAttr(kBackward) ? backward : forward).push_back(&op);
  auto type = IntegerType::get(func.getContext(), 64);
  auto set = [&](Operation *op, int64_t stage) {
    op->setAttr(kStage, IntegerAttr::get(type, stage));
  };
  // Before the layers: what they need. What needs them stands where they have
  // made it (head, loss: behind the last; something of one layer: with it).
  llvm::DenseSet<Operation *> before = closure(forward, /*users=*/false);
  DenseMap<Operation *, int64_t> stages;
  for (Operation *op : forward)
    stages[op] = isa<graph::RepeatOp>(op) || before.contains(op) ? 0
                                                                 : stageOfOperands(op, stages, last);
  // The rest with the first that needs it.
  for (Operation *op : llvm::reverse(forward)) {
    if (isa<graph::RepeatOp>(op))
      continue;
    int64_t stage = stages[op];
    if (stage < 0) {
      stage = last;
      for (Operation *user : op->getUsers())
        stage = std::min(stage, stages.lookup_or(user, last));
    }
    stages[op] = stage;
    set(op, stage);
  }
  // Backward leaves the layers at stage 0; the rest belongs to the head.
  llvm::DenseSet<Operation *> after = closure(backward, /*users=*/true);
  for (Operation *op : backward)
    if (!isa<graph::RepeatOp>(op))
      set(op, after.contains(op) ? 0 : last);
}

struct AssignStages : impl::AssignStagesBase<AssignStages> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    MeshAttr mesh = getMesh(module);
    func::FuncOp func = getStepFunction(module);
    if (!mesh || !func) {
      module.emitError("tactic stages needs @")
          << (isInference(module) ? "forward" : "micro") << " and parallel.mesh";
      return signalPassFailure();
    }
    int64_t stages = mesh.getSize("pp");
    SmallVector<graph::RepeatOp> repeats(func.getBody().getOps<graph::RepeatOp>());
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
    if (isInference(module) && stages > 1)
      for (graph::RepeatOp op : repeats)
        splitStacks(op);
    setStages(func, stages - 1);
  }
};

} // namespace
} // namespace llmc
