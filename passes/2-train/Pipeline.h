// Builds phase 2, the passes that make a training step of a model. Tests:
// test/passes/2-train/GradientTest.cpp, UpdateTest.cpp.
#ifndef LLMC_PASSES_TRAIN_PIPELINE_H
#define LLMC_PASSES_TRAIN_PIPELINE_H

#include "mlir/Pass/PassManager.h"

namespace llmc {

struct TrainOptions {
  bool adamw = true; // else SGD without momentum
};

// Adds the passes of phase 2: from @forward to @micro (loss and gradients of one micro-batch) and
// @update (one step of the optimizer).
void buildTrainPipeline(mlir::OpPassManager &pm, const TrainOptions &options);

} // namespace llmc

#endif // LLMC_PASSES_TRAIN_PIPELINE_H
