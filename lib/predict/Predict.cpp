#include "lib/predict/Predict.h"

#include "dialects/graph/GraphAttrs.h"
#include "lib/pipeline/Pipeline.h"
#include "lib/predict/ExtractTable.h"
#include "passes/2-train/DivideLayers/Balance.h"

using namespace llmc;

namespace {

// Returns the options for one stage of which every choice that the table does not hold has its plain value: ZeRO,
// schedule and recomputation are composed from the table.
CompileOptions optionsOfTable(CompileOptions options) {
  options.pp = 1;
  options.zero = 0;
  options.schedule.reset();
  options.virtualStages.reset();
  options.stages.clear();
  options.recompute = Recompute::None;
  options.memoryLimit = 0;
  options.globalBatch = options.batchRows();
  options.weights = "random"; // nothing is read
  options.oneLayerOfEach = true;
  options.verifiesIr = false;
  if (options.ep > 1 && options.moeBudget == 0)
    options.moeBudget = 1;
  return options;
}

// Divides the layers as compile does, where nobody asked for other numbers and the program is ours.
void divideStages(const cost::Table &table, cost::Choices &choices) {
  if (choices.software != cost::Profile::Llmc || !choices.stages.empty() || choices.mesh.pp == 1)
    return;
  stages::LayerCosts costs;
  for (int kind : table.layers)
    costs.layers.push_back(table.kinds[kind].forward.flops);
  costs.mayBegin.assign(costs.layers.size(), true);
  costs.before = table.before.forward.flops, costs.after = table.after.forward.flops;
  if (auto counts = stages::balance(costs, choices.mesh.pp * choices.chunks))
    choices.stages = *counts;
}

// Returns whether the layers can be divided as the choices say; emits an error otherwise.
bool checkStages(mlir::ModuleOp module, const cost::Table &table, const cost::Choices &choices) {
  int64_t chunks = choices.mesh.pp * choices.chunks, layers = int64_t(table.layers.size()), given = 0;
  for (int64_t count : choices.stages)
    given += count;
  if (layers + 2 < chunks) // the first and the last may have the embedding and the head alone
    module.emitError() << "pp " << choices.mesh.pp << " x " << choices.chunks << " virtual stages are " << chunks
                       << " chunks, and the model has " << layers << " layers: use " << layers + 2
                       << " chunks or fewer, of which the first and the last may be an embedding and a head alone";
  else if (!choices.stages.empty() && int64_t(choices.stages.size()) != chunks)
    module.emitError() << "--stages gives the layers of " << choices.stages.size() << " virtual stages, and there are "
                       << chunks << ": give one number for each, or auto";
  else if (!choices.stages.empty() && given != layers)
    module.emitError() << "--stages gives " << given << " layers, and the model has " << layers;
  else
    return true;
  return false;
}

} // namespace

std::optional<predict::Prediction> predict::readPrediction(mlir::MLIRContext &context, const CompileOptions &options,
                                                           const cost::Machine &machine, bool choosesRecompute) {
  CompileOptions own = optionsOfTable(options);
  auto module = readModel(context, own);
  if (!module || failed(runPhases(*module, own, Phase::Import, Phase::Partition)))
    return std::nullopt;
  Prediction out;
  out.machine = machine;
  cost::Choices &choices = out.machine.choices;
  out.choosesRecompute = choosesRecompute;
  out.table =
      extractTable(*module, choices.software, options.cp > 1 && options.cpKind == CpKind::Ring ? options.cp : 1);
  divideStages(out.table, choices);
  if (!checkStages(*module, out.table, choices))
    return std::nullopt;
  auto model = (*module)->getAttrOfType<mlir::DictionaryAttr>(graph::kModel);
  auto number = [&](llvm::StringRef key) {
    auto value = model ? model.getAs<mlir::IntegerAttr>(key) : mlir::IntegerAttr();
    return value ? value.getInt() : 0;
  };
  if (auto name = model ? model.getAs<mlir::StringAttr>("name") : mlir::StringAttr())
    out.model = name.str();
  choices.sequence = number("sequence");
  out.table.tokens = double(choices.sequence * choices.microBatch);
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

void predict::price(Prediction &prediction) {
  cost::Machine &machine = prediction.machine;
  auto fits = [&] {
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
    if (choices.recompute == cost::Kept::Full)
      for (int sixteenths = 1; sixteenths <= 16; ++sixteenths) {
        choices.recomputed = sixteenths / 16.0;
        if (fits())
          break;
      }
  } else {
    fits();
  }
  prediction.time = cost::predictStep(prediction.table, machine);
}
