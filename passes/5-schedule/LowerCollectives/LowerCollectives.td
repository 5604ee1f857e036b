def LowerCollectives : Pass<"llmc-lower-collectives", "::mlir::ModuleOp"> {
  let summary = "lowers collectives to forms that a rank and the interconnect support";
  let description = [{
    Needs: functions on local types.
    Gives: a gather or reduce-scatter along a dimension with more than 32 slices before it between two
      transposes, since the members' parts are sent one behind the other (of fewer slices each is a
      collective for itself, BuildProcedures); `parallel.all_slice` as a
      lookup of rows, each of which is one member's part, at its `parallel.axis_offset`.
    Keeps: values, origins.
    Example: test/passes/5-schedule/lower-collectives.mlir
  }];
  let dependentDialects = ["::llmc::graph::GraphDialect", "::llmc::parallel::ParallelDialect"];
}
