// Lists the files that a command reads and writes, for support::checkOutputConflicts(). Tested by
// test/numerics/refusals.py (own_input).
#ifndef LLMC_TOOLS_LLMC_FILES_H
#define LLMC_TOOLS_LLMC_FILES_H

#include "lib/support/OutputConflicts.h"
#include "mlir/IR/BuiltinOps.h"
#include "tools/llmc/CommandLine.h"

namespace llmc {

// Returns the path of the runtime to which a payload is appended; it lies beside llmc itself.
std::string runtimePath();

// Returns what the command line reads: the model, the weights, every model or weights file
// beside them, and llmc itself.
std::vector<support::NamedFile> inputsOf(const CommandLine &line);
// Returns the files that the model names: external data, safetensors.
std::vector<support::NamedFile> filesOf(mlir::ModuleOp module);
// Returns OUT and each dump of --dump-phases.
std::vector<support::NamedFile> outputsOf(const CommandLine &line);

} // namespace llmc

#endif // LLMC_TOOLS_LLMC_FILES_H
