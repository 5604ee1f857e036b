def MapToThreads : Pass<"llmc-map-to-threads", "::mlir::ModuleOp"> {
  let summary = "distributes the loops of kernels over the threads of a GPU";
  let description = [{
    Needs: functions emitted for the target cuda (llmc-emit-kernels), alone or in a nested
      module: loops with `llmc.loop_kind`, sums with `llmc.combined` (passes/6-emit/kernel/LoopKinds.h).
    Gives: the same functions as the code of one thread (passes/6-emit/simt/Simt.h), each with
      `llmc.launch`; functions whose work a library does are erased.
    Keeps: everything else.
    Example: test/passes/6-emit/map-to-threads.mlir
  }];
  let dependentDialects = ["::mlir::gpu::GPUDialect", "::mlir::arith::ArithDialect",
    "::mlir::scf::SCFDialect", "::mlir::LLVM::LLVMDialect", "::mlir::vector::VectorDialect"];
}
