// Logical tensors back out of all ranks: under the source's names and shapes,
// without padding.
#ifndef LLMC_RUNTIME_STATES_GATHER_H
#define LLMC_RUNTIME_STATES_GATHER_H

#include "lib/support/Error.h"
#include "lib/support/Safetensors.h"
#include "runtime/cpu/Executor.h"

#include <functional>
#include <string>
#include <vector>

namespace llmc::runtime {

// A source tensor's value; `bytes` are dense, in the shape of the source.
struct LogicalTensor {
  support::ElementType type = support::ElementType::F32;
  std::vector<std::byte> bytes;
};

// Whether some stage owns states of `role` for the source.
bool hasState(const planfile::ProgramT &program, size_t source, planfile::StateRole role);

// Gathers the states of `role` that belong to a source tensor. An error if they
// do not cover it exactly once.
support::Result<LogicalTensor> gather(const Executor &executor, size_t source,
                                      planfile::StateRole role);

// Adds to `tensors` the source tensor under each name that the source has for
// it, with `prefix` before; without a prefix under the model's own names alone.
// `value` is asked when the file is written.
using LogicalValue = std::function<support::Result<LogicalTensor>()>;
void addUnderAllNames(std::vector<support::TensorToWrite> &tensors,
                      const planfile::SourceTensorT &source, support::ElementType type,
                      const std::string &prefix, const LogicalValue &value);

// Element type of the states of `role` of a source.
support::ElementType stateType(const planfile::ProgramT &program, size_t source,
                               planfile::StateRole role);

} // namespace llmc::runtime

#endif // LLMC_RUNTIME_STATES_GATHER_H
