def ShardSequence : Pass<"llmc-shard-sequence", "::mlir::ModuleOp"> {
  let summary = "tactic `sequence`: cuts the sequence of token-wise values over the axis tp";
  let description = [{
    Needs: a step whose products the tactic `tensor` has cut; parallel.mesh with axis tp.
    Gives: the sequence of every value between a row cut and the next column cut, cut over the axis
      tp (Korthikanti et al., 2022), forward and backward: the sum behind a row cut becomes a
      reduce-scatter, what a column cut reads is gathered, and norms, residuals and what backward
      keeps of them are 1/tp. Parameters stay whole; gradients of those that work on a part of the
      sequence are partial sums over tp. Changes nothing where tp is 1 or no product is cut by rows.
    Keeps: earlier annotations (refines only): an op that uses the axis already is not cut again.
    Refuses: a sequence that tp ranks cannot share.
    Example: test/passes/3-shard/shard-sequence.mlir
  }];
  let dependentDialects = ["::llmc::parallel::ParallelDialect"];
  let statistics = [
    Statistic<"numSeeds", "seeds", "row cuts behind which the sequence is cut">,
  ];
}
