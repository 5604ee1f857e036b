#include "lib/predict/Predict.h"

#include "dialects/graph/GraphAttrs.h"
#include "dialects/graph/Repeat.h"
#include "lib/pipeline/Pipeline.h"
#include "lib/predict/ExtractPlanTable.h"
#include "lib/predict/ExtractTable.h"
#include "lib/predict/Layers.h"
#include "passes/2-train/DivideLayers/Costs.h"

using namespace llmc;

namespace {

// Returns the options of a plan from which the table is extracted: one layer of each kind, on one stage. `isOurs`: choices
// of our own plans stay, but for the order of micro-batches; else what the table does not hold has its plain value.
CompileOptions optionsOfTable(CompileOptions options, bool isOurs) {
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
  options.leavesOutAngles = !isOurs;
  options.verifiesIr = false;
  return options;
}

Recompute modeOf(cost::Kept kept) {
  return kept == cost::Kept::Full ? Recompute::Full : kept == cost::Kept::Selective ? Recompute::Selective : Recompute::None;
}

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
// Sets the choices of `own` that say so. `asRows`: experts have room for the rows that they get on average, unless a
// choice gives them more.
Partitioned partition(mlir::MLIRContext &context, CompileOptions &own, const cost::Choices &choices, bool asRows) {
  Partitioned out;
  const int64_t stages = choices.software == cost::Profile::Llmc ? choices.mesh.pp : 1;
  auto module = readModel(context, own);
  if (!module || failed(runPhases(*module, own, Phase::Import, Phase::Raise)))
    return {};
  bool mixes = module->walk([](graph::RouteOp op) {
    return op.getMixture() ? mlir::WalkResult::interrupt() : mlir::WalkResult::advance();
  }).wasInterrupted();
  if (own.ep > 1 && own.moeBudget == 0 && mixes && asRows)
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
  if (failed(runPhases(*module, own, Phase::Raise, Phase::Partition)))
    return {};
  out.module = std::move(module);
  return out;
}

// Sets what a table says of memory to what another one of the same model says.
void takeMemory(cost::Table &table, const cost::Table &from) {
  table.before.kept = from.before.kept;
  table.after.kept = from.after.kept;
  for (size_t i = 0; i < std::min(table.kinds.size(), from.kinds.size()); ++i)
    table.kinds[i].kept = from.kinds[i].kept;
  table.shared.kept = from.shared.kept;
}

// Divides the layers as compile does, where nobody asked for other numbers and the program is ours. `costs` are those of the
// layers of a module, which may have one of each kind alone.
void divideStages(mlir::ModuleOp module, stages::LayerCosts costs, cost::Choices &choices) {
  if (choices.software != cost::Profile::Llmc || !choices.stages.empty() || choices.mesh.pp == 1)
    return;
  if (mlir::ArrayAttr kinds = predict::layerKinds(module)) {
    std::vector<double> built = std::exchange(costs.layers, {});
    for (mlir::Attribute kind : kinds)
      if (size_t index = size_t(llvm::cast<mlir::IntegerAttr>(kind).getInt()); index < built.size())
        costs.layers.push_back(built[index]);
    costs.mayBegin.assign(costs.layers.size(), true);
  }
  if (auto counts = stages::balance(costs, choices.mesh.pp * choices.chunks))
    choices.stages = *counts;
}

// Returns whether the layers can be divided as the choices say; emits an error otherwise.
bool checkStages(mlir::ModuleOp module, const cost::Table &table, const cost::Choices &choices) {
  int64_t chunks = choices.mesh.pp * choices.chunks, layers = int64_t(table.layers.size()), given = 0;
  for (int64_t count : choices.stages)
    given += count;
  int64_t empty = -1; // of the stages between the first and the last
  for (size_t i = 1; i + 1 < choices.stages.size(); ++i)
    if (choices.stages[i] == 0 && empty < 0)
      empty = int64_t(i);
  if (layers + 2 < chunks) // the first and the last may have the embedding and the head alone
    module.emitError() << "pp " << choices.mesh.pp << " x " << choices.chunks << " virtual stages are " << chunks
                       << " chunks, and the model has " << layers << " layers: use " << layers + 2
                       << " chunks or fewer, of which the first and the last may be an embedding and a head alone";
  else if (!choices.stages.empty() && int64_t(choices.stages.size()) != chunks)
    module.emitError() << "--stages gives the layers of " << choices.stages.size() << " virtual stages, and there are "
                       << chunks << ": give one number for each, or auto";
  else if (!choices.stages.empty() && given != layers)
    module.emitError() << "--stages gives " << given << " layers, and the model has " << layers;
  else if (empty >= 0)
    module.emitError() << "--stages gives no layers to virtual stage " << empty
                       << ": only the first (an embedding alone) and the last (a head alone) may have none";
  else if (choices.software == cost::Profile::Llmc && choices.chunks > 1 && choices.microBatches % choices.mesh.pp)
    module.emitError() << "--virtual-stages " << choices.chunks << " runs micro-batches in groups of pp = " << choices.mesh.pp
                       << ", and " << choices.microBatches << " are no multiple of it: change --global-batch or --micro-batch";
  else
    return true;
  return false;
}

} // namespace

std::optional<predict::Prediction> predict::readPrediction(mlir::MLIRContext &context, const CompileOptions &options,
                                                           const cost::Machine &machine, bool choosesRecompute) {
  bool isOurs = machine.choices.software == cost::Profile::Llmc;
  CompileOptions own = optionsOfTable(options, isOurs), asCompiled = own;
  auto [module, costs, bodies] = partition(context, own, machine.choices, /*asRows=*/true);
  if (!module)
    return std::nullopt;
  Prediction out;
  out.machine = machine;
  cost::Choices &choices = out.machine.choices;
  out.choosesRecompute = choosesRecompute;
  auto setTables = [&, &layers = bodies](mlir::ModuleOp of, CompileOptions &chosen, auto set) {
    for (cost::Kept kept : {cost::Kept::All, cost::Kept::Selective, cost::Kept::Full}) {
      if (!choosesRecompute && kept != choices.recompute)
        continue;
      mlir::OwningOpRef<mlir::ModuleOp> kernels = of.clone();
      chosen.recompute = modeOf(kept);
      if (failed(findKernels(*kernels, chosen)))
        return false;
      set(out.tables[kept], extractPlanTable(*kernels, layers));
    }
    return true;
  };
  if (!isOurs) {
    out.table = extractTable(*module, choices.software, bodies);
  } else {
    if (!setTables(*module, own, [](cost::Table &table, cost::Table made) { table = std::move(made); }))
      return std::nullopt;
    // Takes memory of a plan that has the room which compile gives experts, and time of one that has their rows.
    if (own.moeBudget != asCompiled.moeBudget) {
      auto roomy = partition(context, asCompiled, machine.choices, /*asRows=*/false).module;
      if (!roomy || !setTables(*roomy, asCompiled, takeMemory))
        return std::nullopt;
    }
    out.table = out.tables.begin()->second;
  }
  divideStages(*module, std::move(costs), choices);
  if (!checkStages(*module, out.table, choices))
    return std::nullopt;
  auto model = (*module)->getAttrOfType<mlir::DictionaryAttr>(graph::kModel);
  if (isOurs) {
    if (options.schedule != Schedule::Interleaved) // each of its chunks is a stage there
      asCompiled.schedule = options.schedule;
    auto plan = WorkspacePlan::build(context, asCompiled, out.table, out.machine, /*isShort=*/bool(predict::layerKinds(*module)));
    if (!plan)
      return std::nullopt;
    out.workspace = std::make_shared<WorkspacePlan>(std::move(*plan));
  }
  auto number = [&](llvm::StringRef key) {
    auto value = model ? model.getAs<mlir::IntegerAttr>(key) : mlir::IntegerAttr();
    return value ? value.getInt() : 0;
  };
  if (auto name = model ? model.getAs<mlir::StringAttr>("name") : mlir::StringAttr())
    out.model = name.str();
  choices.sequence = number("sequence");
  out.table.tokens = double(choices.sequence * choices.microBatch);
  for (auto &[kept, table] : out.tables)
    table.tokens = out.table.tokens;
  for (const cost::Part *part : {&out.table.before, &out.table.after})
    out.parameters += part->wholeParameters;
  double idle = 0; // parameters of experts that a token does not go to
  for (int kind : out.table.layers) {
    out.parameters += out.table.kinds[kind].wholeParameters;
    idle += out.table.kinds[kind].wholeExperts * (1 - out.table.copies / out.table.experts);
  }
  out.activeParameters = out.parameters - idle;
  return out;
}

bool predict::price(Prediction &prediction) {
  cost::Machine &machine = prediction.machine;
  bool isMeasured = true;
  auto fits = [&] {
    if (auto table = prediction.tables.find(machine.choices.recompute); table != prediction.tables.end())
      prediction.table = table->second;
    if (prediction.workspace && prediction.table.workspace.empty()) {
      auto workspace = prediction.workspace->measure(modeOf(machine.choices.recompute));
      isMeasured &= workspace.has_value();
      prediction.table.workspace = workspace.value_or(std::map<cost::ChunkShape, cost::Workspace>());
    }
    prediction.memory = cost::predictMemory(prediction.table, machine);
    return llvm::all_of(prediction.memory, [&](const cost::MemoryParts &stage) {
      return stage.sum() <= cost::usableMemory(machine.cluster);
    });
  };
  // Recomputes as little as fits where nothing is asked for: the core of attention, else so many layers as it takes.
  cost::Choices &choices = machine.choices;
  if (prediction.choosesRecompute) {
    choices.recomputed = 1;
    for (cost::Kept kept : {cost::Kept::All, cost::Kept::Selective, cost::Kept::Full}) {
      choices.recompute = kept;
      if (fits())
        break;
    }
    if (choices.recompute == cost::Kept::Full && choices.software != cost::Profile::Llmc)
      for (int sixteenths = 1; sixteenths <= 16; ++sixteenths) {
        choices.recomputed = sixteenths / 16.0;
        if (fits())
          break;
      }
  } else {
    fits();
  }
  prediction.time = cost::predictStep(prediction.table, machine);
  return isMeasured;
}
