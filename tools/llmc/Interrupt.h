// Handles the signals that end llmc. Tested by test/numerics/failures.py
// (compilation_that_is_stopped).
#ifndef LLMC_TOOLS_LLMC_INTERRUPT_H
#define LLMC_TOOLS_LLMC_INTERRUPT_H

#include <string>

namespace llmc {

// Removes the temporary files of this process when SIGINT, SIGTERM or SIGHUP ends it; signals
// that are ignored stay so. Suits only a process that does not run compiled code itself: a
// handler needs the stack of the thread that it interrupts. A folder that is given goes, too, with all that it holds.
void removeTemporariesOnSignals(std::string folder = "");

} // namespace llmc

#endif // LLMC_TOOLS_LLMC_INTERRUPT_H
