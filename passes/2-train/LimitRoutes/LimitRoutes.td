def LimitRoutes : Pass<"llmc-limit-routes", "::mlir::ModuleOp"> {
  let summary = "lets each expert take a limited number of rows of each row of tokens";
  let description = [{
    Needs: a function with routes (graph.route), before it has gradients.
    Gives: behind each a graph.limit_routes of ceil(`capacity` x tokens x choices / experts) rows (Fedus et
      al., 2022, "Switch Transformers", section 2.2), which all products read. A row of tokens is the
      routing group, so that what is left out does not depend on who computes it. A choice that is left
      out adds nothing to its token; the weights of the others stay.
    Keeps: everything else.
    Example: test/passes/2-train/limit-routes.mlir
  }];
  let dependentDialects = ["::llmc::graph::GraphDialect"];
  let options = [
    Option<"capacity", "capacity", "double", /*default=*/"1", "rows that an expert takes, by their average">,
  ];
  let statistics = [Statistic<"numRoutes", "routes", "routes that are limited">];
}
