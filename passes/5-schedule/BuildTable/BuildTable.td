def BuildTable : Pass<"llmc-build-table", "::mlir::ModuleOp"> {
  let summary = "orders the procedures of a step: GPipe, 1F1B, interleaved 1F1B or ZB-H1";
  let description = [{
    Needs: plan.stage ops with their procedures, v chunks of layers each, an exchange for
      each message; p = number of stages, m = micro-batches. v is 1 but for `interleaved`, where p
      divides m; `zero-bubble` has procedures of weight gradients (SplitBackward).
    Gives: table and slots of each stage; a slot holds what one micro-batch of a chunk
      keeps as long as procedures touch its pool: from forward to backward, or to weight gradients. GPipe (Huang et al., 2019): all forwards,
      then all backwards, m slots. 1F1B (Narayanan et al., 2019, 2021): stage s
      runs min(m, p-s-1) forwards, then alternates; min(m, p-s) slots. With one
      stage 1F1B is plain gradient accumulation. Interleaved 1F1B (Narayanan et al., 2021): the
      chunks of a stage take turns; at most min(v m, 2(p-s-1) + (v-1)p + 1) of all
      chunks hold a micro-batch at once, though each pool has the slots that its own chunk needs. ZB-H1 (Qi et al., 2024): 1F1B with weight gradients s micro-batches later;
      min(m, p) slots. Of an inference: the forward of each micro-batch, in one slot.
      Messages travel when they are made and their slot is free, in the order of the columns that
      the steps have if all take equally long; those of one column are one group. All stages
      so keep one order of exchanges, and none can hang, whatever order their devices
      keep (NCCL runs what one rank issues in one order).
      Procedures that no entry names are removed.
    Keeps: procedures of computation.
    Example: test/passes/5-schedule/build-table.mlir
  }];
  let options = [
    Option<"schedule", "schedule", "std::string", "\"1f1b\"", "gpipe, 1f1b, interleaved or zero-bubble">,
    Option<"microBatches", "micro-batches", "int64_t", "1", "Micro-batches of a step">
  ];
  let dependentDialects = ["::llmc::plan::PlanDialect"];
}
