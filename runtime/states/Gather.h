// Gathers logical tensors from all ranks, under the source's names and shapes, without
// padding. The test is test/runtime/StatesTest.cpp.
#ifndef LLMC_RUNTIME_STATES_GATHER_H
#define LLMC_RUNTIME_STATES_GATHER_H

#include "lib/support/Error.h"
#include "lib/support/Safetensors.h"
#include "runtime/cpu/Executor.h"
#include "runtime/states/SourceStates.h"

#include <functional>
#include <string>
#include <vector>

namespace llmc::runtime {

// Holds the value of a source tensor; `bytes` are contiguous, in the shape of the source.
struct LogicalTensor {
  support::ElementType type = support::ElementType::F32;
  std::vector<std::byte> bytes;
};

// Returns whether some stage owns states of `role` for the source.
bool hasState(const SourceStates &states, size_t source, planfile::StateRole role);

// Returns the states of `role` of a source tensor, which `states` lists for the executor's program,
// gathered from their first holders, those of 16-bit floats as F32. Fails if they do not cover it
// exactly once, or differ in type.
support::Result<LogicalTensor> gather(const Executor &executor, const SourceStates &states,
                                      size_t source, planfile::StateRole role);

// Returns what training has made of a source tensor: the masters of its parameters, and the
// parameters that have none. Fails as gather() does.
support::Result<LogicalTensor> gatherWeights(const Executor &executor, const SourceStates &states,
                                             size_t source);

// Returns whether saved weights have the source tensor under its own name, not only under its
// aliases: the model's files use the name, or there is no other.
bool savesOwnName(const planfile::SourceTensorT &source);

// Adds to `tensors` the source tensor under each of its names, prefixed by `prefix`; without
// a prefix only under names that the model's files use. `value` is called when the file is
// written, once for each name.
using LogicalValue = std::function<support::Result<LogicalTensor>()>;
void addUnderAllNames(std::vector<support::TensorToWrite> &tensors,
                      const planfile::SourceTensorT &source, support::ElementType type,
                      const std::string &prefix, const LogicalValue &value);

// Returns the element type of what gatherWeights() returns: F64, or F32, also if the source has no
// parameters.
support::ElementType weightType(const SourceStates &states, size_t source);

} // namespace llmc::runtime

#endif // LLMC_RUNTIME_STATES_GATHER_H
