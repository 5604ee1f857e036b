#include "lib/predict/RaisedModels.h"

#include "dialects/graph/Graph.h"
#include "dialects/graph/GraphAttrs.h"

#include "lib/pipeline/Pipeline.h"
#include "lib/predict/Layers.h"
#include "lib/predict/MarkedRows.h"

using namespace mlir;
using namespace llmc;

predict::RaisedModels::Key predict::RaisedModels::keyOf(const CompileOptions &options) {
  return {options.batchRows(), options.oneLayerOfEach, options.angles, options.layersKept};
}

ModuleOp predict::RaisedModels::raised(const CompileOptions &options) {
  auto [at, isNew] = modules_.try_emplace(keyOf(options), nullptr);
  if (!at->second) { // one that was refused may be asked for with a mesh that fits
    OwningOpRef<ModuleOp> module = readModel(context_, options);
    if (!module || failed(runPhases(*module, options, Phase::Import, Phase::Raise)))
      return {};
    at->second = std::move(module);
  }
  return *at->second;
}

OwningOpRef<ModuleOp> predict::RaisedModels::copy(const CompileOptions &options) {
  ModuleOp module = raised(options);
  return module ? module.clone() : OwningOpRef<ModuleOp>();
}

std::optional<int64_t> predict::RaisedModels::markedRows(CompileOptions options) {
  options.microBatch = 1, options.globalBatch = options.batchRows();
  auto [at, isNew] = marked_.try_emplace(keyOf(options));
  if (isNew)
    // Leaves out models that have all of their layers, as of ONNX files: their constants have rows, and a million of these take
    // longer than reading every table by itself.
    if (ModuleOp module = raised(options); module && layerKinds(module))
      at->second = markRows(module);
  return at->second;
}

void predict::dropSources(Phase phase, mlir::Operation *module) {
  if (phase != Phase::Train)
    return;
  for (auto source : llvm::make_early_inc_range(llvm::cast<mlir::ModuleOp>(module).getOps<graph::SourceOp>()))
    if (!source->hasAttr(graph::kAnnotation))
      source.erase();
}
