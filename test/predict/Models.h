// Returns models of test/data as the tests of tables need them: partitioned.
#ifndef LLMC_TEST_PREDICT_MODELS_H
#define LLMC_TEST_PREDICT_MODELS_H

#include "dialects/graph/Repeat.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "test/support/Context.h"

#include <string>
#include <vector>

namespace llmc::test {

// Returns a model in bf16, partitioned with all of its layers or one of each kind; null if that fails. Sets `options` so, and
// `bodies` to the layers of each repeat.
inline mlir::OwningOpRef<mlir::ModuleOp> partitioned(mlir::MLIRContext &context, const std::string &model,
                                                     CompileOptions &options, bool oneOfEach, std::vector<int64_t> &bodies) {
  options.model = std::string(LLMC_TEST_DATA) + "/" + model + "/config.json";
  options.weights = "random";
  options.oneLayerOfEach = oneOfEach;
  options.precision = Precision::Bf16;
  auto module = readModel(context, options);
  if (!module || failed(runPhases(*module, options, Phase::Import, Phase::Raise)))
    return {};
  for (auto repeat : module->lookupSymbol<mlir::func::FuncOp>("forward").getOps<graph::RepeatOp>())
    bodies.push_back(graph::layersInBody(repeat));
  if (failed(runPhases(*module, options, Phase::Raise, Phase::Partition)))
    return {};
  return module;
}

} // namespace llmc::test

#endif // LLMC_TEST_PREDICT_MODELS_H
