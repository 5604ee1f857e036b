// Holds the analysis managers that LLVM's passes need while they run, for the CPU and for cards.
// The managers refer to each other: neither copy nor move it. Results refer to the module, and to
// the target machine of `builder`, which both must outlive it; `builder` itself need not. Tests:
// test/passes/6-emit/KernelTest.cpp (CPU), test/cuda/PtxTest.cpp (cards).
#ifndef LLMC_PASSES_EMIT_OBJECT_LLVMANALYSES_H
#define LLMC_PASSES_EMIT_OBJECT_LLVMANALYSES_H

#include "llvm/Passes/PassBuilder.h"

namespace llmc::emit {

struct LlvmAnalyses {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager graphs;
  llvm::ModuleAnalysisManager modules;

  explicit LlvmAnalyses(llvm::PassBuilder &builder) {
    builder.registerModuleAnalyses(modules);
    builder.registerCGSCCAnalyses(graphs);
    builder.registerFunctionAnalyses(functions);
    builder.registerLoopAnalyses(loops);
    builder.crossRegisterProxies(loops, functions, graphs, modules);
  }
};

} // namespace llmc::emit

#endif // LLMC_PASSES_EMIT_OBJECT_LLVMANALYSES_H
