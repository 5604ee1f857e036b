// Phase 5 in pipeline order. Registration, headers and documentation come from here.
include "mlir/Pass/PassBase.td"
include "passes/5-schedule/UnrollLayers/UnrollLayers.td"
include "passes/5-schedule/LowerCollectives/LowerCollectives.td"
include "passes/5-schedule/BuildProcedures/BuildProcedures.td"
include "passes/5-schedule/BucketReductions/BucketReductions.td"
include "passes/5-schedule/BuildTable/BuildTable.td"
include "passes/5-schedule/AssignArena/AssignArena.td"
include "passes/5-schedule/VerifySchedule/VerifySchedule.td"
