#include "lib/predict/Tables.h"

#include "dialects/graph/GraphAttrs.h"
#include "dialects/graph/Repeat.h"
#include "lib/pipeline/Pipeline.h"
#include "lib/predict/ExtractPlanTable.h"
#include "lib/predict/ExtractTable.h"
#include "lib/predict/Layers.h"
#include "lib/predict/MarkedRows.h"
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
  std::vector<stages::LayerCosts> costs;    // of each number of rows
  std::vector<int64_t> bodies;              // layers in the body of each repeat
};

// Reads the tables of a model, of the rows of a micro-batch that its options have, or of several numbers of rows that `marked`
// stands for.
class Reader {
public:
  Reader(predict::RaisedModels &models, const cost::Choices &choices, llvm::ArrayRef<int64_t> rows, std::optional<int64_t> marked)
      : models_(models), choices_(choices), rows_(rows), marked_(marked), tables_(rows.size()) {}

  // Returns tables of each number of rows; nullopt after diagnostics.
  std::optional<std::vector<Tables>> read(const CompileOptions &options, llvm::ArrayRef<cost::Kept> kept, bool splits);

private:
  bool isOurs() const { return choices_.software == cost::Profile::Llmc; }
  Partitioned partition(CompileOptions &own);
  bool makeTables(const Partitioned &from, bool isLast, CompileOptions chosen, llvm::ArrayRef<cost::Kept> kept,
                  std::map<cost::Kept, cost::Table> Tables::*out);

  // Calls visit(i) for each number of rows, of which the tensors of the module have the sizes meanwhile.
  template <class Visit> void forEachRows(mlir::ModuleOp module, Visit visit) {
    std::optional<predict::MarkedRows> sizes;
    if (marked_)
      sizes.emplace(module, *marked_);
    for (size_t i = 0; i < rows_.size(); ++i) {
      if (sizes)
        sizes->set(rows_[i]);
      visit(i);
    }
    if (sizes)
      sizes->set(*marked_);
  }

  predict::RaisedModels &models_;
  const cost::Choices &choices_;
  llvm::ArrayRef<int64_t> rows_;
  std::optional<int64_t> marked_;
  std::vector<Tables> tables_;
};

// Partitions the model as the table needs it: where our own plans have stages, what follows the layers has one of its own.
// Sets the choices of `own` that say so. Experts of other stacks have room for the rows that they get on average, unless a
// choice gives them more.
Partitioned Reader::partition(CompileOptions &own) {
  Partitioned out;
  const int64_t stages = isOurs() ? choices_.mesh.pp : 1;
  auto module = models_.copy(own);
  if (!module)
    return {};
  bool mixes = module->walk([](graph::RouteOp op) {
    return op.getMixture() ? mlir::WalkResult::interrupt() : mlir::WalkResult::advance();
  }).wasInterrupted();
  if (own.ep > 1 && own.moeBudget == 0 && mixes && !isOurs())
    own.moeBudget = 1;
  auto forward = module->lookupSymbol<mlir::func::FuncOp>("forward");
  forEachRows(*module, [&](size_t) { out.costs.push_back(stages::costsOf(forward)); });
  for (auto repeat : forward.getOps<graph::RepeatOp>())
    out.bodies.push_back(graph::layersInBody(repeat));
  if (int64_t layers = countLayers(*module); stages > 1 && layers > 0) {
    own.pp = 2;
    own.stages = {layers, 0};
    if (choices_.order == cost::Order::ZeroBubble)
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
bool Reader::makeTables(const Partitioned &from, bool isLast, CompileOptions chosen, llvm::ArrayRef<cost::Kept> kept,
                        std::map<cost::Kept, cost::Table> Tables::*out) {
  for (const cost::Kept &each : kept) {
    mlir::OwningOpRef<mlir::ModuleOp> copy = isLast && &each == &kept.back() ? mlir::ModuleOp() : (*from.module).clone();
    mlir::ModuleOp kernels = copy ? *copy : *from.module;
    chosen.recompute = predict::recomputeOf(each);
    if (failed(findKernels(kernels, chosen)))
      return false;
    forEachRows(kernels, [&](size_t i) { (tables_[i].*out)[each] = predict::extractPlanTable(kernels, from.bodies); });
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

std::optional<std::vector<Tables>> Reader::read(const CompileOptions &options, llvm::ArrayRef<cost::Kept> kept, bool splits) {
  CompileOptions own = predict::optionsOfTable(options, isOurs());
  Partitioned partitioned = partition(own);
  if (!partitioned.module || (marked_ && !predict::marksNoState(*partitioned.module, *marked_)))
    return std::nullopt;
  mlir::ModuleOp module = *partitioned.module;
  if (!isOurs()) {
    forEachRows(module, [&](size_t i) {
      tables_[i].of[cost::Kept::All] = predict::extractTable(module, choices_.software, partitioned.bodies);
    });
  } else {
    splits &= own.pp > 1;
    if (!makeTables(partitioned, !splits, own, kept, &Tables::of))
      return std::nullopt;
    own.schedule = Schedule::ZeroBubble; // differs in its kernels alone
    if (splits && !makeTables(partitioned, true, own, kept, &Tables::split))
      return std::nullopt;
  }
  auto model = module->getAttrOfType<mlir::DictionaryAttr>(graph::kModel);
  for (size_t i = 0; i < rows_.size(); ++i) {
    Tables &out = tables_[i];
    if (auto name = model ? model.getAs<mlir::StringAttr>("name") : mlir::StringAttr())
      out.model = name.str();
    if (auto tokens = model ? model.getAs<mlir::IntegerAttr>("sequence") : mlir::IntegerAttr())
      out.sequence = tokens.getInt();
    for (auto *tables : {&out.of, &out.split})
      for (auto &[each, table] : *tables)
        table.tokens = double(out.sequence * rows_[i]);
    out.costs = std::move(partitioned.costs[i]);
    spreadCosts(module, out.costs);
    out.isShort = bool(predict::layerKinds(module));
  }
  return std::move(tables_);
}

} // namespace

std::optional<Tables> predict::readTables(RaisedModels &models, const CompileOptions &options, const cost::Choices &choices,
                                          llvm::ArrayRef<cost::Kept> kept, bool splits) {
  auto read = Reader(models, choices, choices.microBatch, std::nullopt).read(options, kept, splits);
  return read ? std::optional(std::move(read->front())) : std::nullopt;
}

std::optional<std::vector<Tables>> predict::readTablesOfRows(RaisedModels &models, const CompileOptions &options,
                                                             const cost::Choices &choices, llvm::ArrayRef<int64_t> rows,
                                                             llvm::ArrayRef<cost::Kept> kept, bool splits) {
  CompileOptions own = options;
  std::optional<int64_t> marked = models.markedRows(optionsOfTable(own, choices.software == cost::Profile::Llmc));
  if (!marked)
    return std::nullopt;
  own.microBatch = *marked;
  return Reader(models, choices, rows, marked).read(own, kept, splits);
}

std::optional<std::vector<int64_t>> predict::divideStages(const stages::LayerCosts &costs, const cost::Choices &choices) {
  return stages::balance(costs, choices.mesh.pp * choices.chunks);
}
