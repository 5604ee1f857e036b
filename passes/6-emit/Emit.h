// From a scheduled module with kernels to bytes.
#ifndef LLMC_PASSES_EMIT_EMIT_H
#define LLMC_PASSES_EMIT_EMIT_H

#include "lib/planfile/Program.h"
#include "mlir/IR/BuiltinOps.h"
#include "passes/6-emit/kernel/KernelTarget.h"
#include <string>
#include <vector>

namespace llmc {

// The kernels of a program for one kind of processor.
struct KernelObject {
  std::string target; // KernelTarget::name
  std::string bytes;  // an ELF shared object without imports
};

// The plan of `module` (after buildEmitPipeline) and its kernels for every processor
// that they were emitted for, or for the one of `only`. Fails with diagnostics.
mlir::LogicalResult emitProgram(mlir::ModuleOp module, planfile::ProgramT &program,
                                std::vector<KernelObject> &kernels, llvm::StringRef only = "");

namespace emit {

// Name of the nested module that holds the kernels; those of further targets have the
// same names in a module each (kernelsModule).
inline constexpr llvm::StringLiteral kKernelsModule = "kernels";
std::string kernelsModule(const KernelTarget &target);

// Functions in the form of Kernel.h, made for the processor `target`, -> an ELF shared
// object that imports nothing.
mlir::FailureOr<std::string> makeSharedObject(mlir::ModuleOp kernels, const KernelTarget &target);

// plan dialect -> plan file, table by table.
mlir::LogicalResult writePlan(mlir::ModuleOp module, planfile::ProgramT &program);

} // namespace emit
} // namespace llmc

#endif // LLMC_PASSES_EMIT_EMIT_H
