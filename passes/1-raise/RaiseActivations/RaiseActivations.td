def RaiseActivations : Pass<"llmc-raise-activations", "::mlir::func::FuncOp"> {
  let summary = "recognises an activation, however it is spelt out";
  let description = [{
    Needs: constants and shapes folded.
    Gives: `graph.gelu` (`tanh` or `erf`), `graph.sigmoid` or x * sigmoid(x) for
      every elementwise expression of one value around a tanh, an erf or an exp
      whose values are those of the activation: the expression is evaluated in
      double at 513 points of [-12, 12] and differs by at most 1e-6 (1 + |x|).
      The two forms of GELU differ by 4e-4, so they are not confused.
    Keeps: expressions of more than one value.
    Example: test/passes/1-raise/raise-activations.mlir
  }];
  let statistics = [Statistic<"numRaised", "raised", "Activations recognised">];
  let dependentDialects = ["::llmc::graph::GraphDialect"];
}
