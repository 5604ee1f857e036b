// Describes the processors that kernels are made for, as far as emitters depend on them. Tests:
// test/passes/6-emit/KernelTest.cpp (each target), emit-kernels-cuda.mlir.
#ifndef LLMC_PASSES_EMIT_KERNEL_KERNELTARGET_H
#define LLMC_PASSES_EMIT_KERNEL_KERNELTARGET_H

#include "llvm/ADT/StringRef.h"
#include <array>
#include <string>

namespace llmc::emit {

// Describes one target. Its lanes decide the order in which dot products and sums along a row
// add up, and so their last bits: a target gives the same bits on every machine, two targets may
// differ.
struct KernelTarget {
  llvm::StringLiteral name; // as in the program's sections and on its command line
  unsigned lanes;           // of a float32 vector
  unsigned termLanes;       // of a vector of terms of a sum: chains enough to hide latency
  unsigned columnLanes;     // of columns done at once where rows are reduced
  bool threads = false;     // loops are distributed over threads (simt/)
};
inline constexpr KernelTarget kAvx2Target{"avx2", 8, 16, 32};
inline constexpr KernelTarget kAvx512Target{"avx512", 16, 32, 64};
// Uses accesses of 16 bytes, vectors of 4 float32.
inline constexpr KernelTarget kCudaTarget{"cuda", 4, 4, 4, /*threads=*/true};

inline constexpr std::array<const KernelTarget *, 2> kCpuTargets = {&kAvx2Target, &kAvx512Target};
inline constexpr std::array<const KernelTarget *, 3> kTargets = {&kAvx2Target, &kAvx512Target,
                                                                 &kCudaTarget};

// Gives the name of the nested module that holds the kernels. kernelsModule() returns the name
// for `target`: this one for the first CPU target; each further target has a module of its own
// (`kernels_avx512`) with functions of the same names.
inline constexpr llvm::StringLiteral kKernelsModule = "kernels";
std::string kernelsModule(const KernelTarget &target);

} // namespace llmc::emit

#endif // LLMC_PASSES_EMIT_KERNEL_KERNELTARGET_H
