// Phase 4 in pipeline order. Registration, headers and documentation come from here.
include "mlir/Pass/PassBase.td"
include "passes/4-partition/PadDims/PadDims.td"
include "passes/4-partition/DescribeOps/DescribeOps.td"
include "passes/4-partition/InsertReshards/InsertReshards.td"
include "passes/4-partition/SinkReductions/SinkReductions.td"
include "passes/4-partition/SplitStages/SplitStages.td"
include "passes/4-partition/Localize/Localize.td"
include "passes/4-partition/VerifyPartition/VerifyPartition.td"
