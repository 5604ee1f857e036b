def WriteFirst : Pass<"llmc-write-first", "::mlir::ModuleOp"> {
  let summary = "makes the first product of a step write an accumulator instead of adding to zeros";
  let description = [{
    Needs: plan.stage ops with their tables.
    Gives: where a product adds to bytes that a fill of @begin zeroes, is the first to touch them,
      in the order of the table, and runs once a step, it writes instead of adding, and the
      fill leaves out these bytes: of a flat sum of gradients it zeroes norms, biases and
      padding alone. So with one micro-batch the gradients of matrices are neither zeroed nor
      read before they are there; with more, a backward that runs again must add, and nothing
      changes. A fill is not split where it would save less than 64 KiB for each fill more.
    Keeps: values (a sum with zero), all other instructions.
    Example: test/passes/5-schedule/write-first.mlir
  }];
  let dependentDialects = ["::llmc::plan::PlanDialect"];
  let statistics = [
    Statistic<"numFills", "fills", "Fills that are gone altogether">,
    Statistic<"numProducts", "products", "Products that write instead of adding">
  ];
}
