def AssignArena : Pass<"llmc-assign-arena", "::mlir::ModuleOp"> {
  let summary = "gives every buffer its bytes in one static arena";
  let description = [{
    Needs: plan.stage ops with slots.
    Gives: offset of every buffer that is no view, slot_stride of slot buffers,
      arena_bytes.
      Persistent and step buffers have their own bytes, slot buffers their own
      in each slot. Scratch buffers of a procedure share bytes where their
      lifetimes are disjoint (placed largest first at the lowest free offset);
      procedures share the scratch area, since they follow each other on
      stream 0.
    Keeps: instructions.
    Example: test/passes/5-schedule/assign-arena.mlir
  }];
  let dependentDialects = ["::llmc::plan::PlanDialect"];
}
