// Builds phase 6. Tests: test/passes/6-emit/WritePlanTest.cpp.
#ifndef LLMC_PASSES_EMIT_PIPELINE_H
#define LLMC_PASSES_EMIT_PIPELINE_H

#include "mlir/Pass/PassManager.h"

namespace llmc {

// Appends the passes of phase 6 to `pm`: they take plan.stage ops and add modules of kernels
// beside them, with `cuda` also one in the form that mapToThreads() takes. Object code and the
// plan file are made from the result by emitProgram() of Emit.h and by emitCudaKernels().
void buildEmitPipeline(mlir::OpPassManager &pm, bool cuda = false);

} // namespace llmc

#endif // LLMC_PASSES_EMIT_PIPELINE_H
