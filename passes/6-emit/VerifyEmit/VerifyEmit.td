def VerifyEmit : Pass<"llmc-verify-emit", "::mlir::ModuleOp"> {
  let summary = "verifies phase 6: every launch and matmul has its kernel";
  let description = [{
    Needs: plan.stage ops, the nested module @kernels, and @kernels_avx512 if
      there is one.
    Gives: an error for each broken rule: K1 a launch names a kernel that
      @kernels defines; K2 a launch has rows, none exactly if it writes no
      element, and at most one for each element of its operands; K3 a matmul
      has a fallback that @kernels defines; K4 every kernel has a user; K5 the
      modules for other processors define the same kernels.
    Keeps: everything.
    Example: test/passes/6-emit/verify-emit.mlir
  }];
}
