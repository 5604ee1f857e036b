def VerifySchedule : Pass<"llmc-verify-schedule", "::mlir::ModuleOp"> {
  let summary = "verifies phase 5: what a plan must be before kernels are made";
  let description = [{
    Needs: plan.stage ops.
    Gives: an error for each broken rule: V1 no function of graph ops is left; V2 every stage has arena_bytes and
    every buffer an offset; V3 every collective has an origin; V4 the table
    of a stage runs each micro-batch of a chunk once forward, then once backward and, where
    backward is split, then once for the weight gradients, and ends with the update; of an
    inference forward alone; V5 no buffer holds a mask of dropout: what a launch writes depends on
    data if it depends on a draw; V6 where plan.options have `cp_kind` ring, an attention has as many
    keys as rows.
    Keeps: everything.
    Example: test/passes/5-schedule/verify-schedule.mlir
  }];
}
