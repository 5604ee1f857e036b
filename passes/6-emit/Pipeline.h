#ifndef LLMC_PASSES_EMIT_PIPELINE_H
#define LLMC_PASSES_EMIT_PIPELINE_H

#include "mlir/Pass/PassManager.h"

namespace llmc {

// Phase 6, the part that is IR: plan.stage ops -> the same with kernels beside
// them, with `cuda` also in the form that becomes kernels of threads. What follows (object
// code, plan file) is emitProgram() of Emit.h and emitCudaKernels().
void buildEmitPipeline(mlir::OpPassManager &pm, bool cuda = false);

} // namespace llmc

#endif // LLMC_PASSES_EMIT_PIPELINE_H
