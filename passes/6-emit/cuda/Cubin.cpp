// PTX -> cubin with its figures.
#include "passes/6-emit/cuda/Assembler.h"
#include "passes/6-emit/cuda/Cuda.h"
#include "passes/6-emit/cuda/Figures.h"

using namespace mlir;

namespace llmc::emit {

FailureOr<CudaImage> makeCubin(ModuleOp kernels, StringRef chip, Assembler &assembler) {
  CudaImage image;
  image.chip = chip.str();
  image.assembler = assembler.describe();
  auto ptx = makePtx(kernels, chip, image.kernels);
  if (failed(ptx))
    return failure();
  image.ptx = std::move(*ptx);
  auto output = assembler.assemble(image.ptx, chip);
  if (!output)
    return kernels.emitError("kernels cannot be assembled for ")
           << chip << ": " << llvm::toString(output.takeError());
  image.cubin = std::move(output->cubin);
  for (CudaFigures &figures : image.kernels) {
    if (!readAssemblerLog(output->log, figures))
      return kernels.emitError("the assembler says nothing of kernel '")
             << figures.entry << "' for " << chip << "; it said: " << output->log;
    readAccesses(image.ptx, figures);
  }
  return image;
}

} // namespace llmc::emit
