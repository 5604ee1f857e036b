def StreamCollectives : Pass<"llmc-stream-collectives", "::mlir::ModuleOp"> {
  let summary = "gives collectives, and messages around a ring, a stream of their own";
  let description = [{
    Needs: plan.stage ops; collectives, and messages between ranks of a stage, between computations on
      stream 0.
    Gives: these on stream 1, messages of one group as one. Each waits for what stream 0 has done so far;
      stream 0 waits for it where it is first needed: before an instruction
      that touches what the collective writes or writes what it reads, before an
      event is recorded for others (unless it moves scratch alone, which they do not see), and at
      the end of the procedure. What does not depend
      on it runs meanwhile.
    Keeps: the order of instructions, which is the order of issue; collectives on other streams.
    Example: test/passes/5-schedule/stream-collectives.mlir
  }];
  let dependentDialects = ["::llmc::plan::PlanDialect"];
  let statistics = [
    Statistic<"numCollectives", "collectives", "Collectives that got a stream of their own">
  ];
}
