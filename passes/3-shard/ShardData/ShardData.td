def ShardData : Pass<"llmc-shard-data", "::mlir::ModuleOp"> {
  let summary = "tactic `data`: cuts the rows of a micro-batch over the axis dp";
  let description = [{
    Needs: @micro with inputs (graph.input); parallel.mesh with axis dp.
    Gives: dimension 0 of every input cut over dp, and everything that follows
      from the ops' rules. States are never cut by this tactic.
    Keeps: earlier annotations (refines only).
    Example: test/passes/3-shard/shard-data.mlir
  }];
  let dependentDialects = ["::llmc::parallel::ParallelDialect"];
}
