// Assembles PTX to a cubin and reads its figures.
#include "passes/6-emit/cuda/Assembler.h"
#include "passes/6-emit/cuda/Cuda.h"
#include "passes/6-emit/cuda/KernelStats.h"

using namespace mlir;

namespace llmc::emit {

// Returns the bytes that do not lie in registers.
static uint64_t outsideOfRegisters(const CudaKernelStats &kernel) {
  return kernel.stack + kernel.spillStores + kernel.spillLoads;
}
static uint64_t outsideOfRegisters(const CudaImage &image) {
  uint64_t bytes = 0;
  for (const CudaKernelStats &kernel : image.kernels)
    bytes += outsideOfRegisters(kernel);
  return bytes;
}

// Returns `ptx` with a request, for the kernels of `image` that spill, that blocks of `threads`
// threads together reside on a multiprocessor: registers are fewer then, and assemblers order
// instructions so that they suffice.
static std::string askForThreads(const std::string &ptx, const CudaImage &image, int64_t threads) {
  std::string result = ptx;
  for (const CudaKernelStats &kernel : image.kernels) {
    if (outsideOfRegisters(kernel) == 0)
      continue;
    constexpr StringLiteral kSize = ".reqntid ";
    std::string begin = ".entry " + kernel.entry + "(";
    size_t at = result.find(kSize, result.find(begin));
    if (at == std::string::npos)
      continue;
    int64_t size = std::max(std::atoll(result.c_str() + at + kSize.size()), 1ll);
    result.insert(at, ".minnctapersm " + std::to_string(llvm::divideCeil(threads, size)) + "\n");
  }
  return result;
}

static LogicalResult assemble(ModuleOp kernels, Assembler &assembler, const std::string &ptx,
                              CudaImage &image) {
  image.assembler = assembler.describe();
  auto output = assembler.assemble(ptx, image.chip);
  if (!output)
    return kernels.emitError("kernels cannot be assembled for ")
           << image.chip << ": " << llvm::toString(output.takeError());
  image.cubin = std::move(output->cubin);
  for (CudaKernelStats &figures : image.kernels)
    if (!readAssemblerLog(output->log, figures))
      return kernels.emitError("the assembler says nothing of kernel '")
             << figures.entry << "' for " << image.chip << "; it said: " << output->log;
  return success();
}

FailureOr<CudaImage> makeCubin(ModuleOp kernels, StringRef chip,
                               ArrayRef<std::unique_ptr<Assembler>> assemblers) {
  CudaImage image;
  image.chip = chip.str();
  auto ptx = makePtx(kernels, chip, image.kernels);
  if (failed(ptx))
    return failure();
  image.ptx = std::move(*ptx);
  for (CudaKernelStats &figures : image.kernels)
    readAccesses(image.ptx, figures);
  SmallVector<CudaImage> plain(assemblers.size(), image);
  auto isGood = [](const CudaImage &made) { return outsideOfRegisters(made) == 0; };
  for (auto [made, assembler] : llvm::zip(plain, assemblers)) {
    if (failed(assemble(kernels, *assembler, image.ptx, made)))
      return failure();
    if (isGood(made))
      return std::move(made);
  }
  std::optional<CudaImage> best;
  for (int64_t threads : {384, 512, 768})
    for (auto [before, assembler] : llvm::zip(plain, assemblers)) {
      CudaImage made = image;
      if (failed(assemble(kernels, *assembler, askForThreads(image.ptx, before, threads), made)))
        return failure();
      if (isGood(made))
        return made;
      for (CudaImage *other : {&before, &made})
        if (!best || outsideOfRegisters(*other) < outsideOfRegisters(*best))
          best = *other;
    }
  return std::move(*best);
}

} // namespace llmc::emit
