// The kernels of a whole program for chips of NVIDIA.
#ifndef LLMC_PASSES_EMIT_CUDA_CUDAPROGRAM_H
#define LLMC_PASSES_EMIT_CUDA_CUDAPROGRAM_H

#include "lib/planfile/Device.h"
#include "mlir/IR/BuiltinOps.h"
#include <string>
#include <vector>

namespace llmc {

// One image for each of `chips` from a module that the emit phase made with kernels for
// threads; `program` is its plan. A kernel that has no form for a card stands in the
// image's refusals with the reason. Fails with diagnostics, among them that no assembler
// is installed.
mlir::LogicalResult emitCudaKernels(mlir::ModuleOp module, const planfile::ProgramT &program,
                                    const std::vector<std::string> &chips,
                                    std::vector<planfile::DeviceImageT> &images);

} // namespace llmc

#endif // LLMC_PASSES_EMIT_CUDA_CUDAPROGRAM_H
