// Runs a program that was compiled with --infer and prints its progress. The test is
// test/runtime/InferenceTest.cpp.
#ifndef LLMC_RUNTIME_INFER_INFERENCE_H
#define LLMC_RUNTIME_INFER_INFERENCE_H

#include "runtime/session/Session.h"

#include <string>

namespace llmc::runtime {

// Reads the inputs, runs the plan once (and --repeat times more) and writes the outputs. An
// error is one message for the user, without the program's name.
support::Result<Ended> infer(const planfile::ProgramT &program, const Kernels &kernels,
                             const Options &options, const RunContext &context);

// Returns the inputs and outputs of a program as text for --help.
std::string bindingsText(const planfile::ProgramT &program);

} // namespace llmc::runtime

#endif // LLMC_RUNTIME_INFER_INFERENCE_H
