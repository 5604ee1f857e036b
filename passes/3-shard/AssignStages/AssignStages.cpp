// Implements tactic `stages`: assigns the ops of a step's function to pipeline stages.
#include "passes/3-shard/Passes.h"

#include "dialects/graph/Repeat.h"
#include "dialects/parallel/Annotations.h"
#include "passes/3-shard/AssignStages/SplitStacks.h"

#include "dialects/parallel/WantedStages.h"
#include "llvm/Support/InterleavedRange.h"

namespace llmc {
#define GEN_PASS_DEF_ASSIGNSTAGES
#include "passes/3-shard/Passes.h.inc"

using namespace mlir;
using namespace parallel;
namespace {

ArrayRef<int64_t> layersOf(Operation *repeat) {
  return repeat->getAttrOfType<DenseI64ArrayAttr>(kLayers).asArrayRef();
}
int64_t lastStageOf(Operation *repeat) {
  ArrayRef<int64_t> counts = layersOf(repeat);
  return counts.size() - 1 -
         (llvm::find_if(llvm::reverse(counts), [](int64_t n) { return n > 0; }) - counts.rbegin());
}

// Gives each repeat the groups of layers of each stage, contiguously over the repeats in the order in
// which they run; the repeats of the backward pass mirror them. `counts` has the layers of each
// stage. Emits an error if a stage begins inside of a group, or the counts have other layers.
LogicalResult divideRepeats(func::FuncOp func, ArrayRef<int64_t> counts) {
  SmallVector<graph::RepeatOp> forward, backward;
  for (auto op : func.getBody().front().getOps<graph::RepeatOp>())
    (op->hasAttr(kBackward) ? backward : forward).push_back(op);
  size_t stage = 0;
  int64_t used = 0; // layers of the stage
  for (auto [i, op] : llvm::enumerate(forward)) {
    SmallVector<int64_t> own(counts.size(), 0);
    int64_t inGroup = graph::layersInBody(op);
    for (int64_t group = 0; group < int64_t(op.getCount()); ++group, used += inGroup) {
      while (stage < counts.size() && used == counts[stage]) {
        ++stage;
        used = 0;
      }
      if (stage == counts.size())
        return op.emitError("'") << kStageLayers << "' divides the layers as " << llvm::interleaved_array(counts)
                                 << ", and there are more";
      if (used + inGroup > counts[stage])
        return op.emitError("'") << kStageLayers << "' divides the layers as " << llvm::interleaved_array(counts)
                                 << ", which does not fit groups of " << inGroup << " here";
      ++own[stage];
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
  for (; stage < counts.size(); ++stage, used = 0)
    if (counts[stage] != used)
      return forward.front().emitError("'") << kStageLayers << "' divides the layers as "
                                            << llvm::interleaved_array(counts) << ", and there are fewer";
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

// Describes the virtual stages of a step's function: `last`, and the repeat that runs last of the forward pass.
struct Pipeline {
  int64_t last;
  Operation *lastLayers = nullptr;

  Pipeline(func::FuncOp func, int64_t last) : last(last) {
    for (auto op : func.getBody().front().getOps<graph::RepeatOp>())
      if (!op->hasAttr(kBackward))
        lastLayers = op;
  }
  // Returns where what is computed of a repeat's result runs: with its last layers, but behind all
  // layers on the last stage, which may have none.
  int64_t behind(Operation *repeat) const { return repeat == lastLayers ? last : lastStageOf(repeat); }
  // Returns where what is computed of the cotangents that a repeat ends with runs: with the forward ops before those
  // layers, which run with the last layers before them.
  int64_t behindBackward(Operation *repeat) const {
    for (Operation *next = repeat->getNextNode(); next; next = next->getNextNode())
      if (isa<graph::RepeatOp>(next))
        return lastStageOf(next);
    return 0;
  }
};

// Returns the last stage that makes an operand of the op; -1 if no stage makes any.
int64_t stageOfOperands(Operation *op, const DenseMap<Operation *, int64_t> &stages,
                        const Pipeline &pipeline) {
  int64_t stage = -1;
  for (Value operand : op->getOperands()) {
    Operation *producer = operand.getDefiningOp();
    if (!producer)
      continue;
    if (isa<graph::RepeatOp>(producer)) {
      std::optional<int64_t> part = stageOfStackedSlice(op);
      stage = std::max(stage, part ? *part : pipeline.behind(producer));
    } else {
      stage = std::max(stage, stages.lookup_or(producer, -1));
    }
  }
  return stage;
}

// Returns the first stage whose layers' backward pass makes an operand of the op, if any does.
std::optional<int64_t> stageOfCotangents(Operation *op, const DenseMap<Operation *, int64_t> &fromLayers,
                                         const Pipeline &pipeline) {
  std::optional<int64_t> stage;
  for (Value operand : op->getOperands()) {
    Operation *producer = operand.getDefiningOp();
    if (!producer || !producer->hasAttr(kBackward))
      continue;
    auto known = fromLayers.find(producer);
    if (isa<graph::RepeatOp>(producer))
      stage = std::min(stage.value_or(INT64_MAX), pipeline.behindBackward(producer));
    else if (known != fromLayers.end())
      stage = std::min(stage.value_or(INT64_MAX), known->second);
  }
  return stage;
}

// Returns `stages` extended by the ops of the backward pass. Ops that need cotangents of the layers
// run where the forward ops before those layers do. All others, made of forward values alone, run where
// the last of those values is made (the head), and not before the stage of any user.
DenseMap<Operation *, int64_t> backwardStages(ArrayRef<Operation *> backward, DenseMap<Operation *, int64_t> stages,
                                               const Pipeline &pipeline) {
  DenseMap<Operation *, int64_t> fromLayers;
  for (Operation *op : backward) {
    if (isa<graph::RepeatOp>(op))
      continue;
    if (std::optional<int64_t> stage = stageOfCotangents(op, fromLayers, pipeline)) {
      stages[op] = fromLayers[op] = *stage;
      continue;
    }
    stages[op] = stageOfOperands(op, stages, pipeline);
  }
  for (Operation *op : llvm::reverse(backward)) {
    if (isa<graph::RepeatOp>(op) || fromLayers.contains(op))
      continue;
    for (Operation *user : op->getUsers())
      stages[op] = std::max(stages[op], isa<graph::RepeatOp>(user) ? lastStageOf(user)
                                                                   : stages.lookup_or(user, -1));
    if (stages[op] < 0)
      stages[op] = pipeline.last;
  }
  return stages;
}

void setStages(func::FuncOp func, int64_t last) {
  SmallVector<Operation *> forward, backward;
  for (Operation &op : func.getBody().front().without_terminator())
    (op.hasAttr(kBackward) ? backward : forward).push_back(&op);
  Pipeline pipeline(func, last);
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
                     : stageOfOperands(op, stages, pipeline);
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
  stages = backwardStages(backward, std::move(stages), pipeline);
  for (Operation *op : backward)
    if (!isa<graph::RepeatOp>(op))
      set(op, stages[op]);
}

// Returns the layers of each stage where nothing says them: groups of layers divide evenly, of a
// remainder early stages get one each. Emits an error if there are fewer groups than stages.
FailureOr<SmallVector<int64_t>> divideEvenly(ArrayRef<graph::RepeatOp> repeats, int64_t stages) {
  SmallVector<int64_t> groups; // layers in each
  for (graph::RepeatOp op : repeats)
    if (!op->hasAttr(kBackward))
      groups.append(op.getCount(), graph::layersInBody(op));
  int64_t count = groups.size();
  if (count < stages)
    return graph::RepeatOp(repeats.front()).emitError("pp = ")
           << stages << " stages for " << count << " groups of layers; every stage needs one, unless '"
           << kStageLayers << "' says otherwise";
  SmallVector<int64_t> layers(stages, 0);
  for (auto [i, inGroup] : llvm::enumerate(groups)) {
    // The first `count % stages` stages have a group more.
    int64_t rest = count % stages, each = count / stages, at = i;
    layers[at < rest * (each + 1) ? at / (each + 1) : (at - rest) / each] += inGroup;
  }
  return layers;
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
    auto counts = module->getAttrOfType<DenseI64ArrayAttr>(kStageLayers);
    int64_t ofMesh = mesh.getSize(planfile::AxisRole::Stages);
    if (module->hasAttr(kStageLayers) && (!counts || counts.empty() || counts.size() % ofMesh != 0)) {
      module.emitError("'") << kStageLayers << "' is an array of i64 with the layers of each virtual stage, a multiple of the "
                            << ofMesh << " stages, got " << module->getAttr(kStageLayers);
      return signalPassFailure();
    }
    int64_t stages = getNumVirtualStages(module);
    SmallVector<graph::RepeatOp> repeats(func.getBody().getOps<graph::RepeatOp>());
    if (stages > 1 && llvm::all_of(repeats, [](graph::RepeatOp op) { return op->hasAttr(kBackward); })) {
      module.emitError("pp = ")
          << stages << " needs repeated layers to divide, and none were recognised; use pp = 1";
      return signalPassFailure();
    }
    if (!repeats.empty() && !counts) {
      FailureOr<SmallVector<int64_t>> even = divideEvenly(repeats, stages);
      if (failed(even))
        return signalPassFailure();
      counts = DenseI64ArrayAttr::get(&getContext(), *even);
      module->setAttr(kStageLayers, counts);
    }
    if (!repeats.empty() && failed(divideRepeats(func, counts.asArrayRef())))
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
