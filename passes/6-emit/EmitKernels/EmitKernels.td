def EmitKernels : Pass<"llmc-emit-kernels", "::mlir::ModuleOp"> {
  let summary = "emits a kernel for every launch and every matmul";
  let description = [{
    Needs: plan.stage ops whose launches hold groups whose reductions reduce the same dims.
    Gives: a nested module @kernels of functions (see passes/6-emit/kernel/Kernel.h), for
      AVX2, and for each further target a module of its own (@kernels_avx512) with
      functions of the same names; each launch names its kernel, rows and extents,
      each matmul its fallback.
      Launches of equal structure, element types and inner sizes share a kernel.
    Keeps: everything else.
    Example: test/passes/6-emit/emit-kernels.mlir
  }];
  let options = [ListOption<"targets", "targets", "std::string",
                            "avx2, avx512, cuda (default: avx2,avx512)">];
  let dependentDialects = ["::llmc::plan::PlanDialect", "::mlir::func::FuncDialect",
    "::mlir::arith::ArithDialect", "::mlir::math::MathDialect", "::mlir::scf::SCFDialect",
    "::mlir::vector::VectorDialect", "::mlir::LLVM::LLVMDialect"];
}
