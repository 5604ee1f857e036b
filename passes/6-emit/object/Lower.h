#ifndef LLMC_PASSES_EMIT_OBJECT_LOWER_H
#define LLMC_PASSES_EMIT_OBJECT_LOWER_H

#include "mlir/IR/BuiltinOps.h"
#include "passes/6-emit/kernel/KernelTarget.h"
#include <string>

namespace llmc::emit {

// The processor that kernels are made for.
struct CpuTarget {
  std::string name, features;
};
CpuTarget cpuOf(const KernelTarget &target);

// func, scf, arith, math, vector -> LLVM dialect, in place.
mlir::LogicalResult lowerToLLVMDialect(mlir::ModuleOp kernels);

// A module in the LLVM dialect -> relocatable object.
mlir::FailureOr<std::string> makeObject(mlir::ModuleOp kernels, const CpuTarget &cpu);

// Relocatable object -> shared object that imports nothing.
mlir::FailureOr<std::string> linkShared(mlir::ModuleOp kernels, llvm::StringRef object);

} // namespace llmc::emit

#endif // LLMC_PASSES_EMIT_OBJECT_LOWER_H
