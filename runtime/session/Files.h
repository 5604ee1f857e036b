// The files that a run names: what it reads, what it will write, and whether that goes
// together.
#ifndef LLMC_RUNTIME_SESSION_FILES_H
#define LLMC_RUNTIME_SESSION_FILES_H

#include "lib/support/Error.h"
#include "runtime/session/Options.h"
#include "runtime/session/Session.h"

#include <string>
#include <vector>

namespace llmc::runtime {

// Asked before any output is opened: an error if one is an input, or another output, or
// cannot be written as far as can be seen. `outputs` are the files that an inference will
// write into --output. Makes the folder of --save where it is missing.
support::Status checkFiles(const planfile::ProgramT &program, const Options &options,
                           const RunContext &context, const Weights &weights,
                           const std::vector<std::string> &outputs = {});

} // namespace llmc::runtime

#endif // LLMC_RUNTIME_SESSION_FILES_H
