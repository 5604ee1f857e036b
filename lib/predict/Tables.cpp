#include "lib/predict/Tables.h"

#include "dialects/graph/GraphAttrs.h"
#include "dialects/graph/Repeat.h"
#include "lib/pipeline/Pipeline.h"
#include "lib/predict/ExtractPlanTable.h"
#include "lib/predict/ExtractTable.h"
#include "lib/predict/Layers.h"
#include "lib/predict/PriceOptions.h"
#include "passes/2-train/DivideLayers/Costs.h"

using namespace llmc;
using predict::Tables;

CompileOptions predict::optionsOfTable(CompileOptions options, bool isOurs) {
  options.pp = 1;
  options.schedule.reset();
  options.virtualStages.reset();
  options.stages.clear();
  if (!isOurs)
    options.zero = 0;
  options.recompute = Recompute::None;
  options.memoryLimit = 0;
  options.globalBatch = options.batchRows();
  options.weights = "random"; // nothing is read
  options.oneLayerOfEach = true;
  options.angles = isOurs ? AngleTables::Sized : AngleTables::LeftOut;
  options.verifiesIr = false;
  return options;
}

namespace {

// Counts the folded layers of a module that phase 1 left.
int64_t countLayers(mlir::ModuleOp module) {
  int64_t layers = 0;
  module.walk([&](graph::RepeatOp repeat) { layers += repeat.getCount() * graph::layersInBody(repeat); });
  return layers;
}

// Holds a model that is partitioned, and what its layers were before.
struct Partitioned {
  mlir::OwningOpRef<mlir::ModuleOp> module; // null after diagnostics
  stages::LayerCosts costs;
  std::vector<int64_t> bodies; // layers in the body of each repeat
};

// Partitions the model as the table needs it: where our own plans have stages, what follows the layers has one of its own.
// Sets the choices of `own` that say so. Experts of other stacks have room for the rows that they get on average, unless a
// choice gives them more.
Partitioned partition(predict::RaisedModels &models, CompileOptions &own, const cost::Choices &choices) {
  Partitioned out;
  const int64_t stages = choices.software == cost::Profile::Llmc ? choices.mesh.pp : 1;
  auto module = models.copy(own);
  if (!module)
    return {};
  bool mixes = module->walk([](graph::RouteOp op) {
    return op.getMixture() ? mlir::WalkResult::interrupt() : mlir::WalkResult::advance();
  }).wasInterrupted();
  if (own.ep > 1 && own.moeBudget == 0 && mixes && choices.software != cost::Profile::Llmc)
    own.moeBudget = 1;
  auto forward = module->lookupSymbol<mlir::func::FuncOp>("forward");
  out.costs = stages::costsOf(forward);
  for (auto repeat : forward.getOps<graph::RepeatOp>())
    out.bodies.push_back(graph::layersInBody(repeat));
  if (int64_t layers = countLayers(*module); stages > 1 && layers > 0) {
    own.pp = 2;
    own.stages = {layers, 0};
    if (choices.order == cost::Order::ZeroBubble)
      own.schedule = Schedule::ZeroBubble;
  }
  CompileOptions phases = own;
  phases.afterPhase = predict::dropSources;
  if (failed(runPhases(*module, phases, Phase::Raise, Phase::Partition)))
    return {};
  out.module = std::move(module);
  return out;
}

// Adds the table of each choice of what is recomputed. `isLast`: the last one changes the ops of the module itself, which saves
// a copy. False after diagnostics.
bool makeTables(const Partitioned &from, bool isLast, CompileOptions chosen, llvm::ArrayRef<cost::Kept> kept,
                std::map<cost::Kept, cost::Table> &out) {
  for (const cost::Kept &each : kept) {
    mlir::OwningOpRef<mlir::ModuleOp> copy = isLast && &each == &kept.back() ? mlir::ModuleOp() : (*from.module).clone();
    mlir::ModuleOp kernels = copy ? *copy : *from.module;
    chosen.recompute = predict::recomputeOf(each);
    if (failed(findKernels(kernels, chosen)))
      return false;
    out[each] = predict::extractPlanTable(kernels, from.bodies);
  }
  return true;
}

// Says for each layer of the model what it costs, where a module has one of each kind alone.
void spreadCosts(mlir::ModuleOp module, stages::LayerCosts &costs) {
  mlir::ArrayAttr kinds = predict::layerKinds(module);
  if (!kinds)
    return;
  std::vector<double> built = std::exchange(costs.layers, {});
  for (mlir::Attribute kind : kinds)
    if (size_t index = size_t(llvm::cast<mlir::IntegerAttr>(kind).getInt()); index < built.size())
      costs.layers.push_back(built[index]);
  costs.mayBegin.assign(costs.layers.size(), true);
}

} // namespace

std::optional<Tables> predict::readTables(RaisedModels &models, const CompileOptions &options, const cost::Choices &choices,
                                          llvm::ArrayRef<cost::Kept> kept, bool splits) {
  bool isOurs = choices.software == cost::Profile::Llmc;
  CompileOptions own = optionsOfTable(options, isOurs);
  Partitioned partitioned = partition(models, own, choices);
  if (!partitioned.module)
    return std::nullopt;
  mlir::ModuleOp module = *partitioned.module;
  Tables out;
  if (!isOurs) {
    out.of[cost::Kept::All] = extractTable(module, choices.software, partitioned.bodies);
  } else {
    splits &= own.pp > 1;
    if (!makeTables(partitioned, !splits, own, kept, out.of))
      return std::nullopt;
    own.schedule = Schedule::ZeroBubble; // differs in its kernels alone
    if (splits && !makeTables(partitioned, true, own, kept, out.split))
      return std::nullopt;
  }
  auto model = module->getAttrOfType<mlir::DictionaryAttr>(graph::kModel);
  if (auto name = model ? model.getAs<mlir::StringAttr>("name") : mlir::StringAttr())
    out.model = name.str();
  if (auto tokens = model ? model.getAs<mlir::IntegerAttr>("sequence") : mlir::IntegerAttr())
    out.sequence = tokens.getInt();
  for (auto *tables : {&out.of, &out.split})
    for (auto &[each, table] : *tables)
      table.tokens = double(out.sequence * choices.microBatch);
  out.costs = std::move(partitioned.costs);
  spreadCosts(module, out.costs);
  out.isShort = bool(layerKinds(module));
  return out;
}

std::optional<std::vector<int64_t>> predict::divideStages(const stages::LayerCosts &costs, const cost::Choices &choices) {
  return stages::balance(costs, choices.mesh.pp * choices.chunks);
}
