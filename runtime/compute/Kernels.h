// The emitted kernels of a program.
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

// Does rows [begin, end) of its work. Any partition of the rows gives the same bits.
using KernelFunction = void (*)(void *const *buffers, const int64_t *scalars, int64_t begin,
                                int64_t end);

class Kernels {
public:
  // Loads an ELF shared object from memory and finds every kernel of `program`.
  // The object stays loaded until the process ends.
  static support::Result<Kernels> load(std::string_view sharedObject,
                                       const planfile::ProgramT &program);

  // The version of the kernels of `payload` that this processor runs best, or `cpu` if that
  // is not empty; the error names what is missing.
  static support::Result<Kernels> load(const planfile::Payload &payload,
                                       const planfile::ProgramT &program, std::string_view cpu);

  // What runs, for people; empty for functions given one by one.
  const std::string &note() const { return note_; }

  // Functions in the order of Program.kernels.
  explicit Kernels(std::vector<KernelFunction> functions) : functions_(std::move(functions)) {}

  KernelFunction operator[](uint32_t index) const { return functions_[index]; }
  size_t size() const { return functions_.size(); }

private:
  std::vector<KernelFunction> functions_;
  std::string note_;
};

} // namespace llmc::runtime

#endif // LLMC_RUNTIME_COMPUTE_KERNELS_H
