def VerifyEmit : Pass<"llmc-verify-emit", "::mlir::ModuleOp"> {
  let summary = "gate of phase 6: every instruction has what runs it";
  let description = [{
    Needs: plan.stage ops, the nested module @kernels, and @kernels_avx512 if
      there is one.
    Gives: an error for each broken rule: K1 a launch names a kernel that
      @kernels defines; K2 a launch has rows, at least 0; K3 a matmul has a
      fallback that @kernels defines; K4 no kernel is without a user; K5 the
      versions for other processors are the same kernels.
    Keeps: everything.
    Example: test/passes/6-emit/verify-emit.mlir
  }];
}
