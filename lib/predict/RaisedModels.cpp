#include "lib/predict/RaisedModels.h"

#include "lib/pipeline/Pipeline.h"

using namespace mlir;
using namespace llmc;

OwningOpRef<ModuleOp> predict::RaisedModels::copy(const CompileOptions &options) {
  auto [at, isNew] = modules_.try_emplace(
      Key{options.batchRows(), options.oneLayerOfEach, options.leavesOutAngles, options.layersKept}, nullptr);
  if (!at->second) { // one that was refused may be asked for with a mesh that fits
    OwningOpRef<ModuleOp> module = readModel(context_, options);
    if (!module || failed(runPhases(*module, options, Phase::Import, Phase::Raise)))
      return {};
    at->second = std::move(module);
  }
  return (*at->second).clone();
}
