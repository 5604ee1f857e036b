// Checks the rules of the schedule table; a part of checkConservation(). Tests:
// test/planfile/CheckPlanTest.cpp, test/planfile/ChunkTest.cpp.
#ifndef LLMC_LIB_PLANFILE_CHECKTABLE_H
#define LLMC_LIB_PLANFILE_CHECKTABLE_H

#include "lib/planfile/Trace.h"

namespace llmc::planfile {

// Adds a finding for each violation of these rules. The table of each stage runs every chunk of
// every micro-batch forward once, then (in training) backward once, then its weight gradients
// once where the backward is split, in one slot of each pool that no other micro-batch holds
// meanwhile; it exchanges each message once; begin is its first row and the update its last.
void checkTable(const ProgramT &program, Findings &findings);

} // namespace llmc::planfile

#endif // LLMC_LIB_PLANFILE_CHECKTABLE_H
