def RaiseRmsNorm : Pass<"llmc-raise-rms-norm", "::mlir::func::FuncOp"> {
  let summary = "recognises a root-mean-square norm that is spelt out";
  let description = [{
    Needs: constants and shapes folded; layer norms recognised, which hold one.
    Gives: `graph.rms_norm` for x / sqrt(mean(x^2) + eps) * scale over the last
      dim, whatever the order of the factors: squares as a product, a power or a
      sum of squares, a quotient, a reciprocal, an inverse root or a power of
      -1/2. The scale is a vector, a parameter or computed (1 + w); where there
      is none it is ones. Of x less its mean it is `graph.layer_norm` with a bias of
      zeros.
    Keeps: eps, as the decimal that gives the same f32.
    Example: test/passes/1-raise/raise-rms-norm.mlir
  }];
  let dependentDialects = ["::llmc::graph::GraphDialect"];
}
