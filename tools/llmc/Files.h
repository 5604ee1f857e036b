// The files that a command reads and writes, for support::checkOutputs().
#ifndef LLMC_TOOLS_LLMC_FILES_H
#define LLMC_TOOLS_LLMC_FILES_H

#include "lib/support/Outputs.h"
#include "mlir/IR/BuiltinOps.h"
#include "tools/llmc/CommandLine.h"

namespace llmc {

// The runtime that a payload is appended to; it stands beside llmc itself.
std::string runtimePath();

// What is read as far as the command line tells, with what belongs to the model beside it.
std::vector<support::NamedFile> inputsOf(const CommandLine &line);
// What the model itself names: external data, safetensors.
std::vector<support::NamedFile> filesOf(mlir::ModuleOp module);
// OUT and each dump.
std::vector<support::NamedFile> outputsOf(const CommandLine &line);

} // namespace llmc

#endif // LLMC_TOOLS_LLMC_FILES_H
