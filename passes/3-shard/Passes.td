// Phase 3 in pipeline order. The tactics expert and context will run before data, each in a folder
// of its own.
include "mlir/Pass/PassBase.td"
include "passes/3-shard/RepeatKvHeads/RepeatKvHeads.td"
include "passes/3-shard/AssignStages/AssignStages.td"
include "passes/3-shard/ShardData/ShardData.td"
include "passes/3-shard/ShardTensor/ShardTensor.td"
include "passes/3-shard/ShardSequence/ShardSequence.td"
include "passes/3-shard/ShardState/ShardState.td"
include "passes/3-shard/CheckAnnotations/CheckAnnotations.td"
include "passes/3-shard/VerifyShardings/VerifyShardings.td"
