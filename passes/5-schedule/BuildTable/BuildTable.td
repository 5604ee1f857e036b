def BuildTable : Pass<"llmc-build-table", "::mlir::ModuleOp"> {
  let summary = "orders the procedures of a step: GPipe or 1F1B";
  let description = [{
    Needs: plan.stage ops with their procedures, one chunk of layers each, an exchange for
      each message; p = number of stages.
    Gives: table and slots of each stage; a slot holds what one micro-batch
      keeps from forward to backward. GPipe (Huang et al., 2019): all forwards,
      then all backwards, m slots. 1F1B (Narayanan et al., 2019, 2021): stage s
      runs min(m, p-s-1) forwards, then alternates; min(m, p-s) slots. With one
      stage 1F1B is plain gradient accumulation. Of an inference: the forward of each
      micro-batch, in one slot.
      A message leaves when its procedure has run, in one group with the receive of the
      next procedure that needs one, unless that would be received over what
      leaves: two ranks that send to each other at once cannot hang, whatever order
      their devices keep (NCCL runs what one rank issues in one order). A receive
      with no message to go with is posted one procedure early where its slot is free.
      Procedures that no entry names are removed.
    Keeps: procedures of computation.
    Example: test/passes/5-schedule/build-table.mlir
  }];
  let options = [
    Option<"schedule", "schedule", "std::string", "\"1f1b\"", "gpipe or 1f1b">,
    Option<"microBatches", "micro-batches", "int64_t", "1", "Micro-batches of a step">
  ];
  let dependentDialects = ["::llmc::plan::PlanDialect"];
}
