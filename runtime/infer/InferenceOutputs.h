// Writes the outputs of a program for inference, assembled from the ranks that hold their
// parts: DIR/NAME.npy. The test is test/runtime/InferenceTest.cpp.
#ifndef LLMC_RUNTIME_INFER_INFERENCEOUTPUTS_H
#define LLMC_RUNTIME_INFER_INFERENCEOUTPUTS_H

#include "lib/support/Error.h"
#include "runtime/cpu/Executor.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace llmc::runtime {

// Maps a result of some stage to the file to which it is written.
struct OutputFileName {
  uint32_t stage = 0;
  const planfile::OutputBindingT *result = nullptr;
  std::string file; // without the folder
};

// Returns all results, in the order of stages. Characters that cannot be in a file name
// become '_'; names that become equal are told apart by further '_'.
std::vector<OutputFileName> outputFiles(const planfile::ProgramT &program);

// Makes `folder` if it is missing; fails, before the run, if a file cannot be made or NumPy
// lacks its type (bf16).
support::Status checkOutputsWritable(const std::string &folder,
                                     const std::vector<OutputFileName> &outputs);

// Returns a whole result, contiguous: each part from its first holder, without padding. Fails
// if the parts do not cover it exactly once.
support::Result<std::vector<std::byte>> assemble(const Executor &executor,
                                                 const OutputFileName &output);

// Writes each output as float32 (float64 where the plan computes in it), an integer type or
// bool; stops at the first error.
support::Status writeOutputs(const Executor &executor, const std::string &folder,
                             const std::vector<OutputFileName> &outputs);

} // namespace llmc::runtime

#endif // LLMC_RUNTIME_INFER_INFERENCEOUTPUTS_H
