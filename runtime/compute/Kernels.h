// Loads the emitted kernels of a program. The test is test/runtime/CpuTest.cpp.
#ifndef LLMC_RUNTIME_COMPUTE_KERNELS_H
#define LLMC_RUNTIME_COMPUTE_KERNELS_H

#include "lib/planfile/Payload.h"
#include "lib/planfile/Program.h"
#include "lib/support/Error.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace llmc::runtime {

// Computes rows [begin, end) of a launch. Any partition of the rows gives the same bits.
using KernelFunction = void (*)(void *const *buffers, const int64_t *scalars, int64_t begin,
                                int64_t end);

// Holds the entry points of all kernels of a program, by their index in Program.kernels.
class Kernels {
public:
  // Loads an ELF shared object from memory and looks up every kernel of `program`; fails if
  // one is missing. The object stays loaded until the process ends.
  static support::Result<Kernels> load(std::string_view sharedObject,
                                       const planfile::ProgramT &program);

  // Loads from `payload` the version `cpu`, or, if that is empty, the best one that this
  // processor runs. Fails if the processor lacks a feature or the payload has no such
  // version; the error names what is missing. `prefix` begins the names of its sections.
  static support::Result<Kernels> load(const planfile::Payload &payload,
                                       const planfile::ProgramT &program, std::string_view cpu,
                                       std::string_view prefix = planfile::kKernelsPrefix);

  // Returns the name of the loaded version for start-up messages; empty for functions that
  // were passed to the constructor.
  const std::string &note() const { return note_; }

  // Takes functions in the order of Program.kernels; tests pass their own.
  explicit Kernels(std::vector<KernelFunction> functions) : functions_(std::move(functions)) {}

  KernelFunction operator[](uint32_t index) const { return functions_[index]; }
  size_t size() const { return functions_.size(); }

private:
  std::vector<KernelFunction> functions_;
  std::string note_;
};

} // namespace llmc::runtime

#endif // LLMC_RUNTIME_COMPUTE_KERNELS_H
