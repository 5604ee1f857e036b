def LimitRoutes : Pass<"llmc-limit-routes", "::mlir::ModuleOp"> {
  let summary = "lets each expert take a limited number of rows of each row of tokens";
  let description = [{
    Needs: a function with routes (graph.route), before it has gradients; with `counts` they stand in @forward, or in
      the body of a repeat there.
    Gives: behind each a graph.limit_routes of ceil(`capacity` x tokens x choices / experts) rows (Fedus et
      al., 2022, "Switch Transformers", section 2.2), which all products read. A row of tokens is the
      routing group, so that what is left out does not depend on who computes it. A choice that is left
      out adds nothing to its token; the weights of the others stay.
      With `counts` @forward has one more result, graph.output = "moe_dropped": how many choices are left out,
      at all routes and of all tokens. The module's graph.choices says of how many.
    Keeps: everything else.
    Example: test/passes/2-train/limit-routes.mlir
  }];
  let dependentDialects = ["::llmc::graph::GraphDialect"];
  let options = [
    Option<"capacity", "capacity", "double", /*default=*/"1", "rows that an expert takes, by their average">,
    Option<"counts", "counts", "bool", /*default=*/"false", "counts the choices that are left out">,
  ];
  let statistics = [Statistic<"numRoutes", "routes", "routes that are limited">];
}
