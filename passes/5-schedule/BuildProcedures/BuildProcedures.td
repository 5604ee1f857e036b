def BuildProcedures : Pass<"llmc-build-procedures", "::mlir::ModuleOp"> {
  let summary = "turns the functions of a stage into procedures over buffers";
  let description = [{
    Needs: forward_K, backward_K, update_K without repeats, values bound by
      graph.state, graph.input, parallel.boundary, parallel.residual, graph.output. A stage
      that runs several chunks of layers has a forward and a backward for each
      (parallel.chunk), where backward is split a weight_K too, and one update.
    Gives: one plan.stage per stage with its buffers and the procedures begin,
      forward, backward, perhaps weight, and update; the functions are gone.
      Of an inference there are forward_K and the procedure forward alone; an
      output's binding records how its parts lie in the whole (dims, valid_shape).
      Each message has an exchange of its own (send_forward, recv_forward, send_backward,
      recv_backward), on a stream that all messages share; events order it after
      the procedure that makes what leaves or read the slot before, and the
      procedure that needs it after it. Everything else is on stream 0.
    Keeps: every op (as a launch, a library call or a collective), its
      location as origin, the order of ops.

    Values get their allocations before instructions are written: a reshape or a
    slice of leading rows is a view, the parts of a concatenation are written into it
    directly, a new state is written over the old one where no later read of
    the old one exists. What is left becomes a copy.
    Example: test/passes/5-schedule/build-procedures.mlir
  }];
  let dependentDialects = ["::llmc::plan::PlanDialect"];
  let statistics = [
    Statistic<"numLaunches", "launches", "Kernel launches built">,
    Statistic<"numCopies", "copies", "Values that could not be written in place">
  ];
}
