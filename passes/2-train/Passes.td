// Phase 2 in pipeline order. Registration, headers and documentation come from here.
include "mlir/Pass/PassBase.td"
include "passes/2-train/AddDropout/AddDropout.td"
include "passes/2-train/LowerPrecision/LowerPrecision.td"
include "passes/2-train/AddLoss/AddLoss.td"
include "passes/2-train/OrderTokens/OrderTokens.td"
include "passes/2-train/Differentiate/Differentiate.td"
include "passes/2-train/AddOptimizer/AddOptimizer.td"
include "passes/2-train/VerifyTrain/VerifyTrain.td"
