// What the assembler's log and the PTX say of a kernel.
#ifndef LLMC_PASSES_EMIT_CUDA_FIGURES_H
#define LLMC_PASSES_EMIT_CUDA_FIGURES_H

#include "passes/6-emit/cuda/Cuda.h"

namespace llmc::emit {

// Fills registers, stack, spills and shared bytes of `figures.entry` from what `ptxas -v`
// prints; false if it says nothing of it.
bool readAssemblerLog(llvm::StringRef log, CudaFigures &figures);

// Fills loads and stores of `figures.entry` from the instructions of its PTX body.
void readAccesses(llvm::StringRef ptx, CudaFigures &figures);

} // namespace llmc::emit

#endif // LLMC_PASSES_EMIT_CUDA_FIGURES_H
