// Reads figures of a kernel from the assembler's log and from PTX. Its test is
// test/cuda/KernelStatsTest.cpp.
#ifndef LLMC_PASSES_EMIT_CUDA_KERNELSTATS_H
#define LLMC_PASSES_EMIT_CUDA_KERNELSTATS_H

#include "passes/6-emit/cuda/Cuda.h"

namespace llmc::emit {

// Fills registers, stack, spills and shared bytes of `figures.entry` from what `ptxas -v` prints.
// Returns false if the log does not say how many registers the entry uses.
bool readAssemblerLog(llvm::StringRef log, CudaKernelStats &figures);

// Adds to the loads and stores of `figures` those of the PTX body of `figures.entry`. Changes
// nothing if the PTX has no such entry.
void readAccesses(llvm::StringRef ptx, CudaKernelStats &figures);

} // namespace llmc::emit

#endif // LLMC_PASSES_EMIT_CUDA_KERNELSTATS_H
