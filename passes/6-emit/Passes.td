// Lists the passes of phase 6 in pipeline order. Registration, headers and documentation are
// generated from here.
include "mlir/Pass/PassBase.td"
include "passes/6-emit/EmitKernels/EmitKernels.td"
include "passes/6-emit/MapToThreads/MapToThreads.td"
include "passes/6-emit/VerifyEmit/VerifyEmit.td"
