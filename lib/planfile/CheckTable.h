// The rules of the schedule table; a part of checkConservation().
#ifndef LLMC_LIB_PLANFILE_CHECKTABLE_H
#define LLMC_LIB_PLANFILE_CHECKTABLE_H

#include "lib/planfile/CheckWalk.h"

namespace llmc::planfile {

// The table of each stage runs every chunk of every micro-batch forward once, then
// backward once, then its weights once where the backward is split, in one slot of each
// pool that nobody else holds meanwhile; it exchanges each message once.
void checkTable(const ProgramT &program, Findings &findings);

} // namespace llmc::planfile

#endif // LLMC_LIB_PLANFILE_CHECKTABLE_H
