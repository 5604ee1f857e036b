def SplitFusedWeights : Pass<"llmc-split-fused-weights", "::mlir::func::FuncOp"> {
  let summary = "computes each part of a fused projection by itself";
  let description = [{
    Needs: shapes folded.
    Gives: where the result of a matmul with a parameter, with or without a bias,
      is only used in slices that partition one dim of it: one matmul (and sum)
      per slice, of a slice of the parameter (and of the bias). The fused dim may
      be split before (`[b, s, 3, h, d]`) and transposed. Where the parts are not
      runs of neighbours (`[b, s, h, 3 * d]`: q, k and v of each head together)
      the parameter keeps the dims, `[in, h, d]`. FoldViews turns these slices
      into parameters.
    Keeps: products that are also used as a whole.
    Example: test/passes/1-raise/split-fused-weights.mlir
  }];
  let statistics = [Statistic<"numSplit", "split", "Fused projections split">];
  let dependentDialects = ["::llmc::graph::GraphDialect"];
}
