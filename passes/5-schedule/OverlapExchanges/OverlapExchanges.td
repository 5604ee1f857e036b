def OverlapExchanges : Pass<"llmc-overlap-exchanges", "::mlir::ModuleOp"> {
  let summary = "puts products that need no rows of other ranks behind the exchanges of rows";
  let description = [{
    Needs: procedures on stream 0 in the order of their effects; of each mixture of experts two exchanges of
      rows, of which the second depends on the first: to the experts and back, or of gradients.
    Gives: between the start of an exchange and what reads its rows stand products that depend on no
      exchange of the mixture, such as those of a shared expert, and behind the second one those that only the
      first feeds, such as gradients of the experts' weights. The two get about half of the
      multiplications each. Collectives that only such products need start before the first exchange,
      for behind it on the same stream they would wait for it (NVIDIA, Megatron-Core,
      `--moe-shared-expert-overlap` does likewise in the forward).
    Keeps: what each instruction reads; the order of exchanges, and all instructions outside of the mixture;
      instructions on other streams, and messages, which no other crosses.
    Example: test/passes/5-schedule/overlap-exchanges.mlir
  }];
  let dependentDialects = ["::llmc::plan::PlanDialect"];
  let statistics = [
    Statistic<"numMoved", "moved products", "products that run while rows are exchanged">,
  ];
}
