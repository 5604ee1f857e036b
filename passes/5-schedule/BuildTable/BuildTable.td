def BuildTable : Pass<"llmc-build-table", "::mlir::ModuleOp"> {
  let summary = "orders the procedures of a step: GPipe or 1F1B";
  let description = [{
    Needs: plan.stage ops with their procedures; p = number of stages.
    Gives: table and slots of each stage; a slot holds what one micro-batch
      keeps from forward to backward. GPipe (Huang et al., 2019): all forwards,
      then all backwards, m slots. 1F1B (Narayanan et al., 2019, 2021): stage s
      runs min(m, p-s-1) forwards, then alternates; min(m, p-s) slots. With one
      stage 1F1B is plain gradient accumulation. Procedures that no entry names
      are removed. Of an inference: the forward of each micro-batch, in one slot.
    Keeps: procedures.
    Example: test/passes/5-schedule/build-table.mlir
  }];
  let options = [
    Option<"schedule", "schedule", "std::string", "\"1f1b\"", "gpipe or 1f1b">,
    Option<"microBatches", "micro-batches", "int64_t", "1", "Micro-batches of a step">
  ];
  let dependentDialects = ["::llmc::plan::PlanDialect"];
}
