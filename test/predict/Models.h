// Returns models of test/data as the tests of tables need them: partitioned.
#ifndef LLMC_TEST_PREDICT_MODELS_H
#define LLMC_TEST_PREDICT_MODELS_H

#include "test/support/Context.h"

#include <string>

namespace llmc::test {

// Returns a model in bf16, partitioned with all of its layers or one of each kind; null if that fails. Sets `options` so.
inline mlir::OwningOpRef<mlir::ModuleOp> partitioned(mlir::MLIRContext &context, const std::string &model,
                                                     CompileOptions &options, bool oneOfEach) {
  options.model = std::string(LLMC_TEST_DATA) + "/" + model + "/config.json";
  options.weights = "random";
  options.oneLayerOfEach = oneOfEach;
  options.precision = Precision::Bf16;
  auto module = readModel(context, options);
  if (!module || failed(runPhases(*module, options, Phase::Import, Phase::Partition)))
    return {};
  return module;
}

} // namespace llmc::test

#endif // LLMC_TEST_PREDICT_MODELS_H
