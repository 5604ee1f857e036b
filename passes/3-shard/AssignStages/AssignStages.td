def AssignStages : Pass<"llmc-assign-stages", "::mlir::ModuleOp"> {
  let summary = "tactic `stages`: gives ops of @micro to pipeline stages";
  let description = [{
    Needs: @micro; module attribute parallel.mesh with axis pp, perhaps
      parallel.stage_layers (DivideLayers): the layers of each virtual stage. Without it groups of
      layers divide evenly over the stages, of a remainder early stages get one each.
    Gives: parallel.layers on every repeat (runs of its body in each virtual stage; repeats
      one after the other share the stages in that order), parallel.stage on
      every other top-level op of @micro, a virtual stage too. What the layers need runs on
      stage 0, everything else of the forward pass on the last stage or behind the
      layers that it needs; in the backward pass what needs what the layers give back
      runs where the forward ops before them do, everything else (the head) where the forward values are made that
      it depends on, or with its first user.
    Keeps: ops and order.
    Errors: a stage begins inside of a group of layers; weights outside of the layers stand on
      another stage than the model's file asks for (graph.annotation on their sources).
    Example: test/passes/3-shard/assign-stages.mlir
  }];
  let dependentDialects = ["::llmc::parallel::ParallelDialect"];
}
