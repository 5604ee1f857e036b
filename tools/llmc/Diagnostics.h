// Prints MLIR's diagnostics as messages for the user at the terminal. Tested by
// test/numerics/refusals.py (said_once).
#ifndef LLMC_TOOLS_LLMC_DIAGNOSTICS_H
#define LLMC_TOOLS_LLMC_DIAGNOSTICS_H

#include "lib/support/Progress.h"
#include "mlir/IR/Diagnostics.h"
#include <string>

namespace llmc {

// Prints `llmc: error: MODEL: node 'NAME': text` on stderr for as long as it lives. Equal
// lines are printed once, since verify compiles a model several times. Quiet verbosity prints
// errors alone.
class TerminalDiagnostics {
public:
  TerminalDiagnostics(mlir::MLIRContext *context, std::string model,
                      support::Verbosity verbosity = support::Verbosity::Normal);

private:
  mlir::ScopedDiagnosticHandler handler;
};

} // namespace llmc

#endif // LLMC_TOOLS_LLMC_DIAGNOSTICS_H
