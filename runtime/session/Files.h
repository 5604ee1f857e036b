// Checks the files that a run names: what it reads and what it will write. The test is
// test/runtime/TrainerTest.cpp.
#ifndef LLMC_RUNTIME_SESSION_FILES_H
#define LLMC_RUNTIME_SESSION_FILES_H

#include "lib/support/Error.h"
#include "runtime/session/Options.h"
#include "runtime/session/Session.h"

#include <string>
#include <vector>

namespace llmc::runtime {

// Checks the files before any output is opened: fails if an output is an input or another
// output, or visibly cannot be written, or --save would mix two models or lacks space.
// `outputs` are the files that an inference will write into --output. Makes the folder of
// --save if it is missing.
support::Status checkFiles(const planfile::ProgramT &program, const Options &options,
                           const RunContext &context, const Weights &weights,
                           const std::vector<std::string> &outputs = {});

} // namespace llmc::runtime

#endif // LLMC_RUNTIME_SESSION_FILES_H
