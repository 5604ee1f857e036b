def KeepExchanged : Pass<"llmc-keep-exchanged", "::mlir::ModuleOp"> {
  let summary = "keeps what the forward has exchanged, so that backward does not exchange it again";
  let description = [{
    Needs: @forward_K and @backward_K on local types, with layers still folded (phase 4).
    Gives: backward reads the result of an all-to-all of the forward, or the operand of one that it
      would undo, in place of an all-to-all of what the forward keeps. Both take as many bytes.
    Keeps: all values, bit for bit; residuals that are read otherwise too are kept besides.
    Example: test/passes/5-schedule/keep-exchanged.mlir
  }];
  let statistics = [
    Statistic<"numSpared", "spared exchanges", "all-to-alls that backward need not do">,
  ];
  let dependentDialects = ["::llmc::graph::GraphDialect", "::llmc::parallel::ParallelDialect"];
}
