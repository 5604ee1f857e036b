def AssignStages : Pass<"llmc-assign-stages", "::mlir::ModuleOp"> {
  let summary = "tactic `stages`: gives ops of @micro to pipeline stages";
  let description = [{
    Needs: @micro; module attribute parallel.mesh with axis pp.
    Gives: parallel.layers on every repeat (runs of its body in each stage; repeats one
      after the other share the stages in that order), parallel.stage_layers on the
      module (layers of the model in each stage), parallel.stage on
      every other top-level op of @micro. What the layers need runs on
      stage 0, everything else of the forward pass on the last stage or behind the
      layers that it needs; in the backward pass what needs the layers' result runs
      where they end, everything else (the head) where the forward values are made that
      it depends on, or with its first user.
    Keeps: ops and order.

    Layers divide evenly where they can. Of a remainder the stages before the
    last get one each, from the last but one downwards: the last stage has the
    head, early stages keep activations of more micro-batches. Where the model's file
    assigns the weights of layers to stages (graph.annotation on their sources), the
    pass follows it, and fails if it is no division into contiguous stages.
    Example: test/passes/3-shard/assign-stages.mlir
  }];
  let dependentDialects = ["::llmc::parallel::ParallelDialect"];
}
