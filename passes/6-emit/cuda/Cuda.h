// From kernels in the form of ../simt to cubins, in process.
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

// The chips that kernels are assembled for, as users name them.
inline constexpr std::array<llvm::StringLiteral, 3> kCudaChips = {
    llvm::StringLiteral("sm_80"), llvm::StringLiteral("sm_90"), llvm::StringLiteral("sm_100")};

// What the assembler and the PTX say of one kernel. Bytes, but for `registers`
// (32 bits each, a thread) and the counts of accesses.
struct CudaFigures {
  std::string entry;
  unsigned registers = 0, stack = 0, spillStores = 0, spillLoads = 0, shared = 0;
  // Instructions that read or write global memory, by bytes a thread moves.
  std::map<unsigned, unsigned> loads, stores;
  // Bytes of the widest access through each parameter; 0: no buffer, or not touched.
  std::vector<unsigned> widest;
};

// One chip's kernels.
struct CudaImage {
  std::string chip;
  std::string assembler; // "nvJitLink 13.0", "ptxas 13.0.88"
  std::string ptx;
  std::string cubin;
  std::vector<CudaFigures> kernels; // in the order of the functions
};

// Functions in the form of ../simt -> LLVM dialect with NVVM, in place. Every
// public function becomes a kernel.
mlir::LogicalResult lowerToNvvm(mlir::ModuleOp kernels);

// A module that lowerToNvvm made -> PTX for `chip`, and what its code says of each kernel
// (entry and widest). Fails if a call would be left: there is nothing to link against.
mlir::FailureOr<std::string> makePtx(mlir::ModuleOp kernels, llvm::StringRef chip,
                                     std::vector<CudaFigures> &figures);

// The same -> assembled kernels and their figures. Where registers do not suffice, as which
// assembler hands them out, another of `assemblers` may do better.
mlir::FailureOr<CudaImage> makeCubin(mlir::ModuleOp kernels, llvm::StringRef chip,
                                     llvm::ArrayRef<std::unique_ptr<Assembler>> assemblers);

} // namespace llmc::emit

#endif // LLMC_PASSES_EMIT_CUDA_CUDA_H
