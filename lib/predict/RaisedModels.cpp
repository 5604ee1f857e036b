#include "lib/predict/RaisedModels.h"

#include "dialects/graph/Graph.h"
#include "dialects/graph/GraphAttrs.h"

#include "lib/pipeline/Pipeline.h"

using namespace mlir;
using namespace llmc;

OwningOpRef<ModuleOp> predict::RaisedModels::copy(const CompileOptions &options) {
  auto [at, isNew] = modules_.try_emplace(
      Key{options.batchRows(), options.oneLayerOfEach, options.angles, options.layersKept}, nullptr);
  if (!at->second) { // one that was refused may be asked for with a mesh that fits
    OwningOpRef<ModuleOp> module = readModel(context_, options);
    if (!module || failed(runPhases(*module, options, Phase::Import, Phase::Raise)))
      return {};
    at->second = std::move(module);
  }
  return (*at->second).clone();
}

void predict::dropSources(Phase phase, mlir::Operation *module) {
  if (phase != Phase::Train)
    return;
  for (auto source : llvm::make_early_inc_range(llvm::cast<mlir::ModuleOp>(module).getOps<graph::SourceOp>()))
    if (!source->hasAttr(graph::kAnnotation))
      source.erase();
}
