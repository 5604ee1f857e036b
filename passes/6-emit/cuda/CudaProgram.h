// Compiles the kernels of a whole program for NVIDIA's chips. Its test is test/cuda/run.py.
#ifndef LLMC_PASSES_EMIT_CUDA_CUDAPROGRAM_H
#define LLMC_PASSES_EMIT_CUDA_CUDAPROGRAM_H

#include "lib/planfile/Device.h"
#include "mlir/IR/BuiltinOps.h"
#include <string>
#include <vector>

namespace llmc {

// Appends one image for each of `chips` to `images`, from a module that the emit phase made with
// kernels for threads; `program` is its plan. A kernel that has no form for a card is listed in
// the image's refusals with the reason. Fails with diagnostics, among them that no assembler is
// installed.
mlir::LogicalResult emitCudaKernels(mlir::ModuleOp module, const planfile::ProgramT &program,
                                    const std::vector<std::string> &chips,
                                    std::vector<planfile::DeviceImageT> &images);

} // namespace llmc

#endif // LLMC_PASSES_EMIT_CUDA_CUDAPROGRAM_H
