// A plan of many micro-batches, without most of those that repeat.
#ifndef LLMC_LIB_PLANFILE_SHORTEN_H
#define LLMC_LIB_PLANFILE_SHORTEN_H

#include "lib/planfile/Program.h"

#include <memory>

namespace llmc::planfile {

// In the middle of the table each stage does the same again for the next micro-batches in the
// next slots. What two instructions can do to each other lies within as many of these rounds
// as there are slots and stages, so that all of it happens in a plan which keeps several times
// that many at both ends: a copy of `program` whose tables leave the others out, and whose
// later rows speak of micro-batches and slots accordingly. Null where there is nothing to win, or
// where a table has no such middle, or where slots are not alike: that the bytes of one meet
// those of no other slot is what lets one stand for another.
std::unique_ptr<ProgramT> shortened(const ProgramT &program);

} // namespace llmc::planfile

#endif // LLMC_LIB_PLANFILE_SHORTEN_H
