def UnrollLayers : Pass<"llmc-unroll-layers", "::mlir::ModuleOp"> {
  let summary = "replaces every repeat of a stage by its layers";
  let description = [{
    Needs: one forward, backward and update function per stage, local types.
    Gives: functions without graph.repeat; stacked operands become slices,
      stacked results concatenations along the layer dimension; a slice of a
      concatenation that is one of its parts is that part.
    Keeps: values, order, bindings.

    Up to here the program is flat in depth. From here on it is what a rank
    executes, and buffers of single layers matter.
    Example: test/passes/5-schedule/unroll-layers.mlir
  }];
  let dependentDialects = ["::llmc::graph::GraphDialect"];
}
