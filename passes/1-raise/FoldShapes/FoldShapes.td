def FoldShapes : Pass<"llmc-fold-shapes", "::mlir::func::FuncOp"> {
  let summary = "removes movement that only serves the exporter's view of shapes";
  let description = [{
    Needs: static shapes.
    Gives: no reshape, broadcast, transpose, slice or cast that moves nothing or
      undoes another; activations keep their dimensions (a `[b, s, d]` tensor
      flattened to `[b * s, d]` around a matmul is not flattened any more);
      transposes stand in the equation of the matmul beside them.
    Keeps: the arithmetic, op by op.
    Example: test/passes/1-raise/fold-shapes.mlir
  }];
  let dependentDialects = ["::llmc::graph::GraphDialect"];
}
