// Assembles PTX to cubins with whichever of NVIDIA's assemblers is installed. None is linked.
// Tests: test/cuda/AssemblerTest.cpp, test/cuda/PtxTest.cpp.
#ifndef LLMC_PASSES_EMIT_CUDA_ASSEMBLER_H
#define LLMC_PASSES_EMIT_CUDA_ASSEMBLER_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <memory>
#include <string>
#include <vector>

namespace llmc::emit {

class Assembler {
public:
  struct Output {
    std::string cubin;
    std::string log; // what `ptxas -v` prints
  };

  // Finds libnvJitLink by dlopen, else the program ptxas. Both are looked for in $LLMC_CUDA_PATH
  // alone, if it is set; else in $CUDA_HOME, $CUDA_PATH, /usr/local/cuda, and where the loader
  // and $PATH look. A folder is a toolkit, or pip's folder `nvidia`. $LLMC_CUDA_ASSEMBLER =
  // nvjitlink | ptxas takes that one alone. The error lists what was looked for and how to get
  // it.
  static llvm::Expected<std::unique_ptr<Assembler>> find();
  // Finds all that there are, in that order: at least one, or the same error.
  static llvm::Expected<std::vector<std::unique_ptr<Assembler>>> findAll();

  virtual ~Assembler() = default;
  // Returns name and version, for example "ptxas 13.0.88".
  virtual std::string describe() const = 0;
  // Assembles `ptx` for `chip` (for example sm_90); the error holds what the assembler printed.
  virtual llvm::Expected<Output> assemble(const std::string &ptx, llvm::StringRef chip) = 0;
};

} // namespace llmc::emit

#endif // LLMC_PASSES_EMIT_CUDA_ASSEMBLER_H
