#include "lib/predict/Workspace.h"

#include "dialects/graph/Graph.h"
#include "dialects/plan/Plan.h"
#include "lib/pipeline/Pipeline.h"

#include <algorithm>

using namespace mlir;
using namespace llmc;
using namespace llmc::predict;

std::optional<WorkspacePlan> WorkspacePlan::build(MLIRContext &context, CompileOptions options, const cost::Table &table,
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
  plan.module_ = readModel(context, plan.options_);
  if (!plan.module_ || failed(runPhases(*plan.module_, plan.options_, Phase::Import, Phase::Partition)))
    return std::nullopt;
  return plan;
}

// Returns whether the host reads or writes a buffer: it then holds no state of the model.
static bool isOfHost(plan::BufferOp buffer) {
  return buffer.getBindingAs<plan::ScalarBindingAttr>() || buffer.getBindingAs<plan::OutputBindingAttr>() ||
         buffer.getBindingAs<plan::InputBindingAttr>();
}

// Returns the bytes of an arena that are neither a state of the model, sums of its gradients included, nor in a slot.
static double restOf(plan::StageOp stage) {
  constexpr int64_t line = 64; // of which buffers begin at multiples (passes/5-schedule/AssignArena)
  int64_t others = 0;
  std::map<int64_t, int64_t> strides; // of pools
  for (auto buffer : stage.getBody().getOps<plan::BufferOp>()) {
    if (buffer.getParent())
      continue;
    if (buffer.getSpace() == plan::Space::slot)
      strides[int64_t(buffer.getPool().value_or(0))] = int64_t(buffer.getSlotStride().value_or(0));
    else if (buffer.getSpace() == plan::Space::persistent && !isOfHost(buffer))
      others += (int64_t(cast<plan::BufferType>(buffer.getType()).getByteSize()) + line - 1) / line * line;
  }
  for (auto [pool, stride] : strides)
    others += stride * stage.getSlotsOf(pool);
  return double(std::max<int64_t>(0, int64_t(stage.getArenaBytes().value_or(0)) - others));
}

std::optional<std::map<cost::ChunkShape, double>> WorkspacePlan::measure(Recompute recompute) const {
  OwningOpRef<ModuleOp> module = (*module_).clone();
  CompileOptions options = options_;
  options.recompute = recompute;
  if (failed(runPhases(*module, options, Phase::Partition, Phase::Schedule)))
    return std::nullopt;
  std::map<cost::ChunkShape, double> workspace;
  for (auto stage : module->getOps<plan::StageOp>()) {
    double &most = workspace[shapes_[stage.getStage()]];
    most = std::max(most, restOf(stage));
  }
  return workspace;
}
