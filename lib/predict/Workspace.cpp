#include "lib/predict/Workspace.h"

#include "dialects/graph/Graph.h"
#include "dialects/plan/Plan.h"
#include "lib/pipeline/Pipeline.h"

#include <algorithm>
#include <limits>

using namespace mlir;
using namespace llmc;
using namespace llmc::predict;

std::optional<WorkspacePlan> WorkspacePlan::build(RaisedModels &models, CompileOptions options, const cost::Table &table,
                                                  const cost::Machine &machine, bool isShort) {
  WorkspacePlan plan;
  std::vector<cost::ChunkShape> shapes = cost::shapesOf(table, machine);
  std::vector<std::vector<size_t>> layers = cost::layersOfChunks(table, machine);
  options.oneLayerOfEach = false;
  options.stages.clear();
  for (size_t i = 0; i < shapes.size(); ++i) {
    if (isShort && std::count(plan.shapes_.begin(), plan.shapes_.end(), shapes[i]))
      continue;
    plan.shapes_.push_back(shapes[i]);
    options.stages.push_back(isShort ? int64_t(layers[i].size()) : cost::divideLayers(table, machine)[i]);
    if (isShort)
      options.layersKept.insert(options.layersKept.end(), layers[i].begin(), layers[i].end());
  }
  options.pp = int64_t(plan.shapes_.size());
  if (options.pp == 1)
    options.stages.clear(), options.schedule.reset();
  // Takes enough micro-batches for each kind of procedure: the first, the last, and those between.
  options.globalBatch = options.batchRows() * std::min(machine.choices.microBatches, options.pp + 2);
  plan.options_ = std::move(options);
  plan.module_ = models.copy(plan.options_);
  if (!plan.module_ || failed(runPhases(*plan.module_, plan.options_, Phase::Raise, Phase::Partition)))
    return std::nullopt;
  return plan;
}

// Returns whether the host reads or writes a buffer: it then holds no state of the model.
static bool isOfHost(plan::BufferOp buffer) {
  return buffer.getBindingAs<plan::ScalarBindingAttr>() || buffer.getBindingAs<plan::OutputBindingAttr>() ||
         buffer.getBindingAs<plan::InputBindingAttr>();
}

// Returns whether the update alone touches a buffer, or views of it.
static bool isOfUpdate(Value buffer) {
  return llvm::all_of(buffer.getUsers(), [](Operation *user) {
    if (isa<plan::BufferOp>(user))
      return isOfUpdate(user->getResult(0));
    auto procedure = user->getParentOfType<plan::ProcedureOp>();
    return procedure && procedure.getKind() == plan::ProcedureKind::update;
  });
}

// Returns what the arena of a stage holds that is neither a state of the model, sums of its gradients included, nor in a slot.
static cost::Workspace workspaceOf(plan::StageOp stage) {
  constexpr int64_t line = 64; // of which buffers begin at multiples (passes/5-schedule/AssignArena)
  constexpr int64_t nowhere = std::numeric_limits<int64_t>::max();
  int64_t states = 0, hosts = 0, end = 0, endOfUpdate = 0, firstSlot = nowhere, firstOfUpdate = nowhere;
  std::map<int64_t, int64_t> strides; // of pools
  for (auto buffer : stage.getBody().getOps<plan::BufferOp>()) {
    if (buffer.getParent())
      continue;
    int64_t bytes = (int64_t(cast<plan::BufferType>(buffer.getType()).getByteSize()) + line - 1) / line * line;
    int64_t offset = int64_t(buffer.getOffset().value_or(0));
    switch (buffer.getSpace()) {
    case plan::Space::slot:
      strides[int64_t(buffer.getPool().value_or(0))] = int64_t(buffer.getSlotStride().value_or(0));
      firstSlot = std::min(firstSlot, offset);
      break;
    case plan::Space::scratch:
      if (isOfUpdate(buffer))
        firstOfUpdate = std::min(firstOfUpdate, offset), endOfUpdate = std::max(endOfUpdate, offset + bytes);
      else
        end = std::max(end, offset + bytes);
      break;
    default:
      (buffer.getSpace() == plan::Space::persistent && !isOfHost(buffer) ? states : hosts) += bytes;
    }
  }
  for (auto [pool, stride] : strides)
    states += stride * stage.getSlotsOf(pool);
  double update = firstOfUpdate < endOfUpdate ? double(endOfUpdate - firstOfUpdate) : 0;
  return {double(std::max(end, states + hosts) - states), update, firstOfUpdate <= firstSlot};
}

std::optional<std::map<cost::ChunkShape, cost::Workspace>> WorkspacePlan::measure(Recompute recompute) const {
  OwningOpRef<ModuleOp> module = (*module_).clone();
  CompileOptions options = options_;
  options.recompute = recompute;
  if (failed(runPhases(*module, options, Phase::Partition, Phase::Schedule)))
    return std::nullopt;
  std::map<cost::ChunkShape, cost::Workspace> workspace;
  for (auto stage : module->getOps<plan::StageOp>()) {
    cost::Workspace own = workspaceOf(stage);
    auto [known, isNew] = workspace.try_emplace(shapes_[stage.getStage()], own);
    if (!isNew) {
      known->second.passes = std::max(known->second.passes, own.passes);
      known->second.update = std::max(known->second.update, own.update);
      known->second.overSlots &= own.overSlots;
    }
  }
  return workspace;
}
