// Turns a scheduled module whose launches have kernels into bytes: the plan, and a shared object
// of kernels for each processor. Its test is test/passes/6-emit/WritePlanTest.cpp.
#ifndef LLMC_PASSES_EMIT_EMIT_H
#define LLMC_PASSES_EMIT_EMIT_H

#include "lib/planfile/Program.h"
#include "mlir/IR/BuiltinOps.h"
#include "passes/6-emit/kernel/KernelTarget.h"
#include <string>
#include <vector>

namespace llmc {

// Holds the compiled kernels of a program for one kind of processor.
struct KernelObject {
  std::string target; // KernelTarget::name
  std::string bytes;  // an ELF shared object without imports
};

// Writes the plan of `module` (after buildEmitPipeline) into `program` and appends to `kernels`
// one object for every CPU target that has a kernels module, or only for the one named `only`.
// Fails with diagnostics, among them that the module has no kernels.
mlir::LogicalResult emitProgram(mlir::ModuleOp module, planfile::ProgramT &program,
                                std::vector<KernelObject> &kernels, llvm::StringRef only = "");

namespace emit {

// Compiles a copy of `kernels`, functions in the form of Kernel.h made for the processor
// `target`, and returns the bytes of an ELF shared object that imports nothing. Fails with
// diagnostics.
mlir::FailureOr<std::string> makeSharedObject(mlir::ModuleOp kernels, const KernelTarget &target);

// Translates the plan dialect in `module` to `program`, table by table. Fails with a diagnostic
// on an op that the plan file cannot represent or that an earlier phase left incomplete.
mlir::LogicalResult writePlan(mlir::ModuleOp module, planfile::ProgramT &program);

} // namespace emit
} // namespace llmc

#endif // LLMC_PASSES_EMIT_EMIT_H
