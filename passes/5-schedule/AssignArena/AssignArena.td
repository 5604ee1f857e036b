def AssignArena : Pass<"llmc-assign-arena", "::mlir::ModuleOp"> {
  let summary = "gives every buffer its bytes in one static arena";
  let description = [{
    Needs: plan.stage ops with pools.
    Gives: offset of every buffer that is no view, slot_stride of slot buffers,
      arena_bytes.
      Persistent and step buffers have their own bytes, slot buffers their own
      in each slot of their pool. Scratch buffers share bytes where the last touch of one
      happens before the first touch of the other, by streams and events and not by the
      order of the list (placed largest first at the lowest free offset).
      Procedures share the scratch area, since they follow each other on stream 0; what
      another stream may touch beyond that has bytes of its own, or shares them with what this
      stream alone touches. Scratch of the update may lie over slots, unless another stream may
      touch these still, and over sums of gradients that the last backward has scattered.
    Keeps: instructions.
    Example: test/passes/5-schedule/assign-arena.mlir
  }];
  let dependentDialects = ["::llmc::plan::PlanDialect"];
}
