// PTX -> cubin with its figures.
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "passes/6-emit/cuda/Assembler.h"
#include "passes/6-emit/cuda/Cuda.h"
#include "passes/6-emit/cuda/Figures.h"

using namespace mlir;

namespace llmc::emit {

FailureOr<CudaImage> makeCubin(ModuleOp kernels, StringRef chip) {
  auto assembler = Assembler::find();
  if (!assembler)
    return kernels.emitError(llvm::toString(assembler.takeError()));
  OwningOpRef<ModuleOp> copy(kernels.clone());
  if (failed(lowerToNvvm(*copy)))
    return failure();
  auto ptx = makePtx(*copy, chip);
  if (failed(ptx))
    return failure();
  auto output = (*assembler)->assemble(*ptx, chip);
  if (!output)
    return kernels.emitError("kernels cannot be assembled for ")
           << chip << ": " << llvm::toString(output.takeError());
  CudaImage image{chip.str(), (*assembler)->describe(), *ptx, std::move(output->cubin), {}};
  for (auto function : copy->getOps<LLVM::LLVMFuncOp>()) {
    if (!function.isPublic() || function.isExternal())
      continue;
    CudaFigures figures;
    figures.entry = function.getName().str();
    if (!readAssemblerLog(output->log, figures))
      return kernels.emitError("the assembler says nothing of kernel '")
             << figures.entry << "' for " << chip << "; it said: " << output->log;
    readAccesses(*ptx, figures);
    image.kernels.push_back(std::move(figures));
  }
  return image;
}

} // namespace llmc::emit
