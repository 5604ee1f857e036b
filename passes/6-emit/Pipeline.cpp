// Builds the pipeline of phase 6.
#include "passes/6-emit/Pipeline.h"

#include "passes/6-emit/kernel/KernelTarget.h"
#include "passes/6-emit/Passes.h"

namespace llmc {

void buildEmitPipeline(mlir::OpPassManager &pm, bool cuda) {
  EmitKernelsOptions kernels;
  for (const emit::KernelTarget *target : emit::kTargets)
    if (cuda || !target->threads)
      kernels.targets.push_back(target->name.str());
  // Procedures, table and arena are final, so nothing but object code and the
  // plan file will be made from what comes out.
  pm.addPass(createEmitKernels(kernels));
  // Checks the IR: the plan file is written from it without further checks.
  pm.addPass(createVerifyEmit());
}

} // namespace llmc
