def RaiseGelu : Pass<"llmc-raise-gelu", "::mlir::func::FuncOp"> {
  let summary = "recognises a GELU, however it is spelt out";
  let description = [{
    Needs: constants and shapes folded.
    Gives: `graph.gelu` (`tanh` or `erf`) for every elementwise expression of one
      value around a tanh or an erf whose values are those of a GELU: the
      expression is evaluated in double at 513 points of [-12, 12] and differs by
      at most 1e-6 (1 + |x|). The two forms differ by 4e-4, so they are not confused.
    Keeps: expressions of more than one value.
    Example: test/passes/1-raise/raise-gelu.mlir
  }];
  let dependentDialects = ["::llmc::graph::GraphDialect"];
}
