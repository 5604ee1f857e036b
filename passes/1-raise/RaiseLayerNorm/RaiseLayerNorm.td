def RaiseLayerNorm : Pass<"llmc-raise-layer-norm", "::mlir::func::FuncOp"> {
  let summary = "recognises a layer norm that is spelt out";
  let description = [{
    Needs: constants and shapes folded.
    Gives: `graph.layer_norm` for (x - mean) / sqrt(variance + eps) * scale + bias
      over the last dim, in the forms that exporters write: a quotient or a
      product with the reciprocal, squares as a product or a power, means as a
      sum times 1/n or divided by n.
    Keeps: eps, as the decimal that gives the same f32.
    Example: test/passes/1-raise/raise-layer-norm.mlir
  }];
  let dependentDialects = ["::llmc::graph::GraphDialect"];
}
