def RaiseRotary : Pass<"llmc-raise-rotary", "::mlir::func::FuncOp"> {
  let summary = "recognises rotary position embeddings, however they are spelt out";
  let description = [{
    Needs: constants and shapes folded.
    Gives: `graph.rotary` on `[batch, rows, heads, dim]` for each value that is a
      linear function of x, lane by lane of the last dim, of the form
      y[a] = x[a] cos - x[b] sin, y[b] = x[b] cos + x[a] sin, with pairs (i, i +
      half) or (2i, 2i + 1), and y[i] = x[i] behind them. Slices, negatives,
      concatenations, splits and stacks are followed, not matched: only which lane
      goes where counts. The tables may be of full or half width, constant
      or computed; that both lanes of a pair read equal numbers is proven from
      their values or from how they are made. The other dims of x may be in any
      order, and be moved between its branches: the one along which a table differs
      holds the rows.
    Keeps: rotations by a table that depends on a parameter (it would get no
      gradient) or that differs from head to head.
    Example: test/passes/1-raise/raise-rotary.mlir
  }];
  let statistics = [Statistic<"numRaised", "raised", "Rotations recognised">];
  let dependentDialects = ["::llmc::graph::GraphDialect"];
}
