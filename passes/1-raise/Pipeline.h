#ifndef LLMC_PASSES_RAISE_PIPELINE_H
#define LLMC_PASSES_RAISE_PIPELINE_H

#include "mlir/Pass/PassManager.h"

namespace llmc {

struct RaiseOptions {
  // Off: shapes are folded and the order is normalised, but no block is
  // recognised and no layer folded (--raise off).
  bool recognize = true;
};

// Phase 1: @forward as an importer writes it -> the canonical form of the model.
void buildRaisePipeline(mlir::OpPassManager &pm, const RaiseOptions &options = {});

// The passes of this phase and the pipeline `llmc-raise`.
void registerRaise();

} // namespace llmc

#endif // LLMC_PASSES_RAISE_PIPELINE_H
