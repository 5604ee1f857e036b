// The outputs of a program for inference, put together from the ranks that hold
// them: DIR/NAME.npy.
#ifndef LLMC_RUNTIME_INFER_INFERENCEOUTPUTS_H
#define LLMC_RUNTIME_INFER_INFERENCEOUTPUTS_H

#include "lib/support/Error.h"
#include "runtime/cpu/Executor.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace llmc::runtime {

// One result of some stage and the file it goes to.
struct OutputFileName {
  uint32_t stage = 0;
  const planfile::OutputBindingT *result = nullptr;
  std::string file; // without the folder
};

// All results, in the order of stages. What cannot be in a file name becomes '_'; names that become
// equal are told apart by further '_'.
std::vector<OutputFileName> outputFiles(const planfile::ProgramT &program);

// Makes `folder` where missing. Whether all files can be made: better known
// before the run.
support::Status checkOutputsWritable(const std::string &folder,
                                     const std::vector<OutputFileName> &outputs);

// The whole of a result, dense: each part from its first holder, padding left
// out. An error if the parts do not cover it exactly once.
support::Result<std::vector<std::byte>> assemble(const Executor &executor,
                                                 const OutputFileName &output);

// float32 (float64 where the plan computes in it), int64 or bool.
support::Status writeOutputs(const Executor &executor, const std::string &folder,
                             const std::vector<OutputFileName> &outputs);

} // namespace llmc::runtime

#endif // LLMC_RUNTIME_INFER_INFERENCEOUTPUTS_H
