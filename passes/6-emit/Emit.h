// From a scheduled module with kernels to bytes.
#ifndef LLMC_PASSES_EMIT_EMIT_H
#define LLMC_PASSES_EMIT_EMIT_H

#include "lib/planfile/Program.h"
#include "mlir/IR/BuiltinOps.h"
#include <string>

namespace llmc {

// The plan of `module` (after buildEmitPipeline) and its kernels as one ELF
// shared object without imports. Fails with diagnostics.
mlir::LogicalResult emitProgram(mlir::ModuleOp module, planfile::ProgramT &program,
                                std::string &kernels);

namespace emit {

// Name of the nested module that holds the kernels.
inline constexpr llvm::StringLiteral kKernelsModule = "kernels";

// Functions in the form of Kernel.h -> an ELF shared object that imports nothing.
mlir::FailureOr<std::string> makeSharedObject(mlir::ModuleOp kernels);

// plan dialect -> plan file, table by table.
mlir::LogicalResult writePlan(mlir::ModuleOp module, planfile::ProgramT &program);

} // namespace emit
} // namespace llmc

#endif // LLMC_PASSES_EMIT_EMIT_H
