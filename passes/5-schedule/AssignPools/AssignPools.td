def AssignPools : Pass<"llmc-assign-pools", "::mlir::ModuleOp"> {
  let summary = "gives buffers of a micro-batch a slot for as long as they live";
  let description = [{
    Needs: stages whose backward is split (BuildProcedures), all slot buffers of a chunk in its main
      pool. Other stages are left alone.
    Gives: pools by lifetime. What a micro-batch keeps from its forward to its weight gradients stays
      in the main pool; what backward reads last gets a pool whose slots are free after backward,
      what backward keeps for the weight gradients one whose slots are taken there. Procedures
      name the pools that they touch (lanes), and events between them and messages are those of
      the pool in which the message lies; all parts of a message are in one pool.
    Keeps: instructions and their order, but for records that several pools need.

    A stage of ZB-H1 holds most micro-batches either before their backward or behind it, so that
    one slot for both would be twice as large as either (Qi et al., 2024, section 2.3: the peak is
    that of 1F1B where what weight gradients need is less than what backward frees).
    Example: test/passes/5-schedule/assign-pools.mlir
  }];
  let statistics = [
    Statistic<"numMoved", "moved", "Buffers moved to another pool">,
  ];
  let dependentDialects = ["::llmc::plan::PlanDialect"];
}
