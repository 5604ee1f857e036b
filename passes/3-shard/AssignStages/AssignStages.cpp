// Implements tactic `stages`: assigns the ops of a step's function to pipeline stages.
#include "passes/3-shard/Passes.h"

#include "dialects/graph/Repeat.h"
#include "dialects/parallel/Annotations.h"
#include "passes/3-shard/AssignStages/SplitStacks.h"
#include "passes/3-shard/AssignStages/WantedStages.h"

#include <numeric>

namespace llmc {
#define GEN_PASS_DEF_ASSIGNSTAGES
#include "passes/3-shard/Passes.h.inc"

using namespace mlir;
using namespace parallel;
namespace {

// Returns the number of layers of each stage; the pass description has the rule.
SmallVector<int64_t> divideLayers(int64_t layers, int64_t stages) {
  SmallVector<int64_t> counts(stages, layers / stages);
  int64_t rest = layers % stages;
  for (int64_t s = stages - 2; s >= 0 && rest > 0; --s, --rest)
    ++counts[s];
  return counts;
}

// Returns the number of groups of each stage, where groups hold different numbers of layers. A
// stage takes groups while that brings it nearer to an even share, and leaves one for each later
// stage.
SmallVector<int64_t> divideGroups(ArrayRef<int64_t> layers, int64_t stages) {
  if (llvm::all_equal(layers))
    return divideLayers(layers.size(), stages);
  SmallVector<int64_t> counts(stages, 0);
  int64_t rest = std::accumulate(layers.begin(), layers.end(), int64_t(0));
  size_t next = 0;
  for (int64_t s = 0; s < stages; ++s) {
    int64_t taken = 0, left = stages - s;
    while (next < layers.size() && int64_t(layers.size() - next) >= left &&
           (left == 1 || taken == 0 || (2 * taken + layers[next]) * left <= 2 * rest)) {
      taken += layers[next++];
      ++counts[s];
    }
    rest -= taken;
  }
  return counts;
}

ArrayRef<int64_t> layersOf(Operation *repeat) {
  return repeat->getAttrOfType<DenseI64ArrayAttr>(kLayers).asArrayRef();
}
int64_t lastStageOf(Operation *repeat) {
  ArrayRef<int64_t> counts = layersOf(repeat);
  return counts.size() - 1 -
         (llvm::find_if(llvm::reverse(counts), [](int64_t n) { return n > 0; }) - counts.rbegin());
}
int64_t firstStageOf(Operation *repeat) {
  ArrayRef<int64_t> counts = layersOf(repeat);
  return llvm::find_if(counts, [](int64_t n) { return n > 0; }) - counts.begin();
}

// Divides the groups of layers over the stages, contiguously over the repeats in the order in which
// they run; the repeats of the backward pass mirror them. Writes parallel.layers and
// parallel.stage_layers. Emits an error if there are fewer groups than stages.
LogicalResult divideRepeats(func::FuncOp func, int64_t stages) {
  SmallVector<graph::RepeatOp> forward, backward;
  for (auto op : func.getBody().front().getOps<graph::RepeatOp>())
    (op->hasAttr(kBackward) ? backward : forward).push_back(op);
  SmallVector<int64_t> groups; // layers in each
  for (graph::RepeatOp op : forward)
    groups.append(op.getCount(), graph::layersInBody(op));
  if (int64_t(groups.size()) < stages)
    return forward.front().emitError("pp = ")
           << stages << " stages for " << groups.size()
           << (llvm::all_of(groups, [](int64_t n) { return n == 1; }) ? " layers"
                                                                      : " equal groups of layers")
           << "; every stage needs a layer, so pp is at most " << groups.size();
  auto wanted = readWantedGroups(forward, stages);
  if (failed(wanted))
    return failure();
  SmallVector<int64_t> counts = wanted->empty() ? divideGroups(groups, stages) : *wanted;
  SmallVector<int64_t> total(stages, 0);
  int64_t stage = 0, used = 0;
  for (auto [i, op] : llvm::enumerate(forward)) {
    SmallVector<int64_t> own(stages, 0);
    for (int64_t left = op.getCount(); left > 0;) {
      int64_t part = std::min(left, counts[stage] - used);
      own[stage] += part;
      total[stage] += part * graph::layersInBody(op);
      left -= part;
      used += part;
      if (used == counts[stage] && stage + 1 < stages) {
        ++stage;
        used = 0;
      }
    }
    auto attr = DenseI64ArrayAttr::get(op.getContext(), own);
    op->setAttr(kLayers, attr);
    if (backward.empty())
      continue;
    graph::RepeatOp mirror =
        backward.size() == forward.size() ? backward[backward.size() - 1 - i] : graph::RepeatOp();
    if (!mirror || mirror.getCount() != op.getCount())
      return backward.front().emitError("layers of the backward pass do not mirror the forward's");
    mirror->setAttr(kLayers, attr);
  }
  func->getParentOfType<ModuleOp>()->setAttr(kStageLayers,
                                             DenseI64ArrayAttr::get(func.getContext(), total));
  return success();
}

// Returns the ops among `ops` that use a repeat's results, directly or not (`users`), or that a
// repeat's operands are computed from; not a repeat that no other reaches.
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

// Returns the last stage that makes an operand of the op; -1 if no stage makes any.
int64_t stageOfOperands(Operation *op, const DenseMap<Operation *, int64_t> &stages) {
  int64_t stage = -1;
  for (Value operand : op->getOperands()) {
    Operation *producer = operand.getDefiningOp();
    if (!producer)
      continue;
    if (isa<graph::RepeatOp>(producer)) {
      std::optional<int64_t> part = stageOfStackedSlice(op);
      stage = std::max(stage, part ? *part : lastStageOf(producer));
    } else {
      stage = std::max(stage, stages.lookup_or(producer, -1));
    }
  }
  return stage;
}

// Returns the first stage whose layers' backward pass makes an operand of the op, if any does.
std::optional<int64_t> stageOfCotangents(Operation *op,
                                         const DenseMap<Operation *, int64_t> &fromLayers) {
  std::optional<int64_t> stage;
  for (Value operand : op->getOperands()) {
    Operation *producer = operand.getDefiningOp();
    if (!producer || !producer->hasAttr(kBackward))
      continue;
    auto known = fromLayers.find(producer);
    if (isa<graph::RepeatOp>(producer))
      stage = std::min(stage.value_or(INT64_MAX), firstStageOf(producer));
    else if (known != fromLayers.end())
      stage = std::min(stage.value_or(INT64_MAX), known->second);
  }
  return stage;
}

// Returns `stages` extended by the ops of the backward pass. Ops that need cotangents of the layers
// run where the layers of their operands end. All others, made of forward values alone, run where
// the last of those values is made (the head), and not before the stage of any user.
DenseMap<Operation *, int64_t> backwardStages(ArrayRef<Operation *> backward,
                                              DenseMap<Operation *, int64_t> stages, int64_t last) {
  DenseMap<Operation *, int64_t> fromLayers;
  for (Operation *op : backward) {
    if (isa<graph::RepeatOp>(op))
      continue;
    if (std::optional<int64_t> stage = stageOfCotangents(op, fromLayers)) {
      stages[op] = fromLayers[op] = *stage;
      continue;
    }
    stages[op] = stageOfOperands(op, stages);
  }
  for (Operation *op : llvm::reverse(backward)) {
    if (isa<graph::RepeatOp>(op) || fromLayers.contains(op))
      continue;
    for (Operation *user : op->getUsers())
      stages[op] = std::max(stages[op], isa<graph::RepeatOp>(user) ? lastStageOf(user)
                                                                   : stages.lookup_or(user, -1));
    if (stages[op] < 0)
      stages[op] = last;
  }
  return stages;
}

void setStages(func::FuncOp func, int64_t last) {
  SmallVector<Operation *> forward, backward;
  for (Operation &op : func.getBody().front().without_terminator())
    (op.hasAttr(kBackward) ? backward : forward).push_back(&op);
  auto type = IntegerType::get(func.getContext(), 64);
  auto set = [&](Operation *op, int64_t stage) {
    op->setAttr(kStage, IntegerAttr::get(type, stage));
  };
  // Ops that only feed the layers run on stage 0. An op that uses results of layers runs on the
  // stage that has made them all: the head and loss on the last, an op of a single layer with that
  // layer.
  llvm::DenseSet<Operation *> before = closure(forward, /*users=*/false),
                              after = closure(forward, /*users=*/true);
  DenseMap<Operation *, int64_t> stages;
  for (Operation *op : forward)
    stages[op] = isa<graph::RepeatOp>(op) || (before.contains(op) && !after.contains(op))
                     ? 0
                     : stageOfOperands(op, stages);
  // An op that needs no stage's values runs with the first of its users.
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
  stages = backwardStages(backward, std::move(stages), last);
  for (Operation *op : backward)
    if (!isa<graph::RepeatOp>(op))
      set(op, stages[op]);
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
    int64_t stages = mesh.getSize(planfile::AxisRole::Stages);
    SmallVector<graph::RepeatOp> repeats(func.getBody().getOps<graph::RepeatOp>());
    if (stages > 1 && repeats.empty()) {
      module.emitError("pp = ")
          << stages << " needs repeated layers to divide, and none were recognised; use pp = 1";
      return signalPassFailure();
    }
    if (!repeats.empty() && failed(divideRepeats(func, stages)))
      return signalPassFailure();
    if (isInference(module) && stages > 1)
      for (graph::RepeatOp op : repeats)
        splitStacks(op);
    else if (stages > 1)
      groupStacks(repeats);
    setStages(func, stages - 1);
    if (StringAttr axis = mesh.getStageAxis())
      setTactic(module, axis, "stages");
    if (failed(checkWantedStages(func)))
      signalPassFailure();
  }
};

} // namespace
} // namespace llmc
