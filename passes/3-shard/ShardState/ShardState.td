def ShardState : Pass<"llmc-shard-state", "::mlir::ModuleOp"> {
  let summary = "tactic `state`: marks the states that the data-parallel ranks share out (ZeRO)";
  let description = [{
    Needs: states of a training step; parallel.mesh.
    Gives: `parallel.flat_axes`, the axes of data and context parallelism that have several ranks,
      on the states that the stage of ZeRO (Rajbhandari et al., 2020) shares out: 1 masters and
      moments, 2 accumulators too, 3 parameters too. A parameter without a master is updated
      itself, so that only its moments are shared out below stage 3. Biases of routers that counts
      move (graph.bias_rate) stay whole: each moves by the mean of all. Marks nothing at stage 0, of
      an inference, and where one rank has all data.
    Keeps: shardings: what a rank computes is not changed; the flat tensors are made by
      llmc-flatten-states.
    Example: test/passes/3-shard/shard-state.mlir
  }];
  let dependentDialects = ["::llmc::parallel::ParallelDialect"];
  let options = [
    Option<"zero", "zero", "int", /*default=*/"1", "stage of ZeRO, 0 to 3">,
  ];
}
