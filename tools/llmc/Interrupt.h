// Signals that end llmc.
#ifndef LLMC_TOOLS_LLMC_INTERRUPT_H
#define LLMC_TOOLS_LLMC_INTERRUPT_H

namespace llmc {

// SIGINT, SIGTERM and SIGHUP, where they are not ignored, end the process as before, but first
// remove the files that it has begun to write. Of a process that computes nothing itself: a
// handler needs the stack of the thread that it interrupts.
void removeTemporariesOnSignals();

} // namespace llmc

#endif // LLMC_TOOLS_LLMC_INTERRUPT_H
