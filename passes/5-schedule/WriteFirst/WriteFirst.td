def WriteFirst : Pass<"llmc-write-first", "::mlir::ModuleOp"> {
  let summary = "makes the first product of a step write an accumulator instead of adding to zeros";
  let description = [{
    Needs: plan.stage ops with their tables.
    Gives: where every byte that a fill of @begin zeroes is first touched, in the order of
      the table, by a product that adds to all of its output and runs once a step, these
      products write instead of adding, and the fill is gone. So with one micro-batch the
      gradients of matrices are neither zeroed nor read before they are there; with more,
      a backward that runs again must add, and nothing changes.
    Keeps: values (a sum with zero), all other instructions.
    Example: test/passes/5-schedule/write-first.mlir
  }];
  let dependentDialects = ["::llmc::plan::PlanDialect"];
  let statistics = [
    Statistic<"numFills", "fills", "Fills that are gone">,
    Statistic<"numProducts", "products", "Products that write instead of adding">
  ];
}
