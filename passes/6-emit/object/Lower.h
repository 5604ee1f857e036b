// Compiles modules of kernels to the bytes of a shared object, in process and in three steps.
// Tests: test/passes/6-emit/KernelTest.cpp (which runs what is made).
#ifndef LLMC_PASSES_EMIT_OBJECT_LOWER_H
#define LLMC_PASSES_EMIT_OBJECT_LOWER_H

#include "mlir/IR/BuiltinOps.h"
#include "passes/6-emit/kernel/KernelTarget.h"
#include <string>

namespace llmc::emit {

// Describes the processor to generate code for, in LLVM's names; cpuOf() returns that of
// `target`.
struct CpuTarget {
  std::string name, features;
};
CpuTarget cpuOf(const KernelTarget &target);

// Lowers func, scf, arith, math and vector to the LLVM dialect, in place. Fails with
// diagnostics.
mlir::LogicalResult lowerToLLVMDialect(mlir::ModuleOp kernels);

// Compiles a module in the LLVM dialect to a relocatable object, whose bytes it returns. Fails
// with diagnostics.
mlir::FailureOr<std::string> makeObject(mlir::ModuleOp kernels, const CpuTarget &cpu);

// Links relocatable objects to a shared object that imports nothing, whose bytes it returns.
// Fails with a diagnostic at `kernels`, for example on an undefined symbol.
mlir::FailureOr<std::string> linkShared(mlir::ModuleOp kernels, llvm::ArrayRef<std::string> objects);

} // namespace llmc::emit

#endif // LLMC_PASSES_EMIT_OBJECT_LOWER_H
