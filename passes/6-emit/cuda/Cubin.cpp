// PTX -> cubin with its figures.
#include "passes/6-emit/cuda/Assembler.h"
#include "passes/6-emit/cuda/Cuda.h"
#include "passes/6-emit/cuda/Figures.h"
#include <regex>

using namespace mlir;

namespace llmc::emit {

// Asks for blocks of so many threads together on a multiprocessor: registers are fewer then,
// and assemblers order instructions so that they suffice.
static std::string askForThreads(const std::string &ptx, int64_t threads) {
  std::string result;
  std::regex size(R"(\.reqntid (\d+), 1, 1)");
  auto rest = ptx.cbegin();
  for (std::sregex_iterator at(ptx.begin(), ptx.end(), size), end; at != end; ++at) {
    auto after = ptx.cbegin() + at->position() + at->length();
    result.append(rest, after);
    result += "\n.minnctapersm " + std::to_string(llvm::divideCeil(threads, std::stoll((*at)[1])));
    rest = after;
  }
  return result.append(rest, ptx.cend());
}

// Bytes that do not lie in registers.
static uint64_t outsideOfRegisters(const CudaImage &image) {
  uint64_t bytes = 0;
  for (const CudaFigures &kernel : image.kernels)
    bytes += kernel.stack + kernel.spillStores + kernel.spillLoads;
  return bytes;
}

static LogicalResult assemble(ModuleOp kernels, Assembler &assembler, const std::string &ptx,
                              CudaImage &image) {
  image.assembler = assembler.describe();
  auto output = assembler.assemble(ptx, image.chip);
  if (!output)
    return kernels.emitError("kernels cannot be assembled for ")
           << image.chip << ": " << llvm::toString(output.takeError());
  image.cubin = std::move(output->cubin);
  for (CudaFigures &figures : image.kernels)
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
  for (CudaFigures &figures : image.kernels)
    readAccesses(image.ptx, figures);
  constexpr int64_t kAsItIs = 0, kSomeThreads = 384;
  std::optional<CudaImage> best;
  for (int64_t threads : {kAsItIs, kSomeThreads}) {
    std::string text = threads ? askForThreads(image.ptx, threads) : image.ptx;
    for (const auto &assembler : assemblers) {
      if (best && outsideOfRegisters(*best) == 0)
        break;
      CudaImage made = image;
      if (failed(assemble(kernels, *assembler, text, made)))
        return failure();
      if (!best || outsideOfRegisters(made) < outsideOfRegisters(*best))
        best = std::move(made);
    }
  }
  return std::move(*best);
}

} // namespace llmc::emit
