// Builds phase 1, the passes that bring an imported model into its canonical form. Tests:
// test/passes/1-raise/RaiseTest.cpp.
#ifndef LLMC_PASSES_RAISE_PIPELINE_H
#define LLMC_PASSES_RAISE_PIPELINE_H

#include "mlir/Pass/PassManager.h"

namespace llmc {

struct RaiseOptions {
  // Controls recognition. Off (--raise off): shapes are folded and the order is normalised, but no
  // block is recognised and no layer folded.
  bool recognize = true;
};

// Adds the passes of phase 1: from @forward as an importer writes it to the model's canonical form.
void buildRaisePipeline(mlir::OpPassManager &pm, const RaiseOptions &options = {});

// Registers the passes of this phase and the pipeline `llmc-raise`.
void registerRaise();

} // namespace llmc

#endif // LLMC_PASSES_RAISE_PIPELINE_H
