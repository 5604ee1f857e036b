#include "lib/predict/Predict.h"

#include "lib/predict/PriceOptions.h"
#include "lib/predict/Tables.h"
#include "mlir/IR/Diagnostics.h"

using namespace llmc;

namespace {

// Returns whether the layers can be divided as the choices say; emits an error otherwise.
bool checkStages(mlir::Location where, const cost::Table &table, const cost::Choices &choices) {
  int64_t chunks = choices.mesh.pp * choices.chunks, layers = int64_t(table.layers.size()), given = 0;
  for (int64_t count : choices.stages)
    given += count;
  int64_t empty = -1; // of the stages between the first and the last
  for (size_t i = 1; i + 1 < choices.stages.size(); ++i)
    if (choices.stages[i] == 0 && empty < 0)
      empty = int64_t(i);
  if (layers + 2 < chunks) // the first and the last may have the embedding and the head alone
    emitError(where) << "pp " << choices.mesh.pp << " x " << choices.chunks << " virtual stages are " << chunks
                       << " chunks, and the model has " << layers << " layers: use " << layers + 2
                       << " chunks or fewer, of which the first and the last may be an embedding and a head alone";
  else if (!choices.stages.empty() && int64_t(choices.stages.size()) != chunks)
    emitError(where) << "--stages gives the layers of " << choices.stages.size() << " virtual stages, and there are "
                       << chunks << ": give one number for each, or auto";
  else if (!choices.stages.empty() && given != layers)
    emitError(where) << "--stages gives " << given << " layers, and the model has " << layers;
  else if (empty >= 0)
    emitError(where) << "--stages gives no layers to virtual stage " << empty
                       << ": only the first (an embedding alone) and the last (a head alone) may have none";
  else if (choices.software == cost::Profile::Llmc && choices.chunks > 1 && choices.microBatches % choices.mesh.pp)
    emitError(where) << "--virtual-stages " << choices.chunks << " runs micro-batches in groups of pp = " << choices.mesh.pp
                       << ", and " << choices.microBatches << " are no multiple of it: change --global-batch or --micro-batch";
  else
    return true;
  return false;
}

} // namespace

std::optional<predict::Prediction> predict::readPrediction(RaisedModels &models, const CompileOptions &options,
                                                           const cost::Machine &machine, bool choosesRecompute) {
  bool isOurs = machine.choices.software == cost::Profile::Llmc;
  constexpr cost::Kept all[] = {cost::Kept::All, cost::Kept::Selective, cost::Kept::Full};
  auto tables = readTables(models, options, machine.choices,
                           choosesRecompute ? llvm::ArrayRef(all) : llvm::ArrayRef(machine.choices.recompute));
  if (!tables)
    return std::nullopt;
  Prediction out;
  out.model = tables->model;
  out.machine = machine;
  out.choosesRecompute = choosesRecompute;
  cost::Choices &choices = out.machine.choices;
  choices.sequence = tables->sequence;
  if (isOurs)
    choices.sequenceParallel = options.cutsSequence(tables->sequence);
  out.table = tables->of.begin()->second;
  if (isOurs)
    out.tables = std::move(tables->of);
  // Divides the layers as compile does, where nobody asked for other numbers.
  if (isOurs && choices.stages.empty() && choices.mesh.pp > 1)
    choices.stages = divideStages(tables->costs, choices).value_or(std::vector<int64_t>());
  if (!checkStages(mlir::UnknownLoc::get(&models.context()), out.table, choices))
    return std::nullopt;
  if (isOurs) {
    CompileOptions asCompiled = optionsOfTable(options, isOurs);
    if (options.schedule != Schedule::Interleaved) // each of its chunks is a stage there
      asCompiled.schedule = options.schedule;
    auto plan = WorkspacePlan::build(models, asCompiled, out.table, out.machine, tables->isShort);
    if (!plan)
      return std::nullopt;
    out.workspace = std::make_shared<WorkspacePlan>(std::move(*plan));
  }
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
      auto workspace = prediction.workspace->measure(recomputeOf(machine.choices.recompute));
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
