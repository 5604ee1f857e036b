// Compiles kernels in the form of ../simt to PTX and cubins, in process. Its test is
// test/cuda/PtxTest.cpp.
#ifndef LLMC_PASSES_EMIT_CUDA_CUDA_H
#define LLMC_PASSES_EMIT_CUDA_CUDA_H

#include "mlir/IR/BuiltinOps.h"
#include <array>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace llmc::emit {

class Assembler;

// Lists the chips that kernels are assembled for, as users name them.
inline constexpr std::array<llvm::StringLiteral, 3> kCudaChips = {
    llvm::StringLiteral("sm_80"), llvm::StringLiteral("sm_90"), llvm::StringLiteral("sm_100")};

// Holds what the assembler and the PTX report about one kernel, in bytes except for `registers`
// (32 bits each, per thread) and the counts of accesses.
struct CudaKernelStats {
  std::string entry;
  unsigned registers = 0, stack = 0, spillStores = 0, spillLoads = 0, shared = 0;
  // Counts instructions that read or write global memory, by the bytes that a thread moves.
  std::map<unsigned, unsigned> loads, stores;
  // Holds the bytes of the widest access through each parameter; 0 for one that is no buffer, or
  // not accessed.
  std::vector<unsigned> widest;
};

// Holds the kernels of one chip.
struct CudaImage {
  std::string chip;
  std::string assembler; // "nvJitLink 13.0", "ptxas 13.0.88"
  std::string ptx;
  std::string cubin;
  std::vector<CudaKernelStats> kernels; // in the order of the functions
};

// Lowers functions in the form of ../simt to the LLVM dialect with NVVM, in place. Every public
// function becomes a kernel. Fails with diagnostics.
mlir::LogicalResult lowerToNvvm(mlir::ModuleOp kernels);

// Translates a module that lowerToNvvm() made to PTX for `chip`, and sets `figures` to one entry
// per kernel (entry and widest alone). Fails with diagnostics, one of them if a call would be
// left: there is nothing to link against.
mlir::FailureOr<std::string> makePtx(mlir::ModuleOp kernels, llvm::StringRef chip,
                                     std::vector<CudaKernelStats> &figures);

// Assembles the same, and returns the cubin with the figures of each kernel. Where kernels
// spill, it also tries the other `assemblers` and tighter limits on registers, and keeps the
// image with the fewest bytes outside of registers. Fails with diagnostics.
mlir::FailureOr<CudaImage> makeCubin(mlir::ModuleOp kernels, llvm::StringRef chip,
                                     llvm::ArrayRef<std::unique_ptr<Assembler>> assemblers);

} // namespace llmc::emit

#endif // LLMC_PASSES_EMIT_CUDA_CUDA_H
