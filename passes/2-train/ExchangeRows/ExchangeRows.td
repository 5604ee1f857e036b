def ExchangeRows : Pass<"llmc-exchange-rows", "::mlir::ModuleOp"> {
  let summary = "sends the rows of tokens to their experts and back";
  let description = [{
    Needs: a function with routed products (graph.grouped_matmul), whose routers are a `mixture` each where
      ranks share out the experts, before it has gradients; `ranks` that share them out.
    Gives: before the first product of each mixture graph.exchange_routes and graph.dispatch, behind what
      follows row by row graph.collect. In between rows have slots: `budget` times as many as choices,
      rounded up, and at most as many as rows could arrive. Products there are `exchanged`. Where slots may
      not suffice, or where `counts` says so, @forward has one more result, graph.output = "moe_lost": how
      many rows found none.
      One rank has all experts: rows go nowhere, slots are as many as choices, and routes stand for
      sources. Rows come to lie in order of their experts (passes/4-partition/Localize), so that products
      find those of an expert side by side and copy none. Changes nothing where there is no mixture.
    Keeps: all values in the global program, where slots hold the rows of their own token. Gradients
      follow: collect is the adjoint of dispatch, so that a layer has two exchanges of rows in each
      direction.
    Errors: X1 the ranks do not share out the experts; X2 the budget is below 1; X3 a router is no `mixture`.
    Example: test/passes/2-train/exchange-rows.mlir
  }];
  let dependentDialects = ["::llmc::graph::GraphDialect"];
  let options = [
    Option<"ranks", "ranks", "int64_t", /*default=*/"1", "ranks that share out the experts">,
    Option<"budget", "budget", "double", /*default=*/"2", "rows for which a rank has room, by their average">,
    Option<"counts", "counts", "bool", /*default=*/"false", "counts rows without a slot where there are none">,
  ];
  let statistics = [Statistic<"numMixtures", "mixtures", "mixtures whose rows are exchanged">];
}
