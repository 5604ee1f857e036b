// When each part of a step runs, if all take as long: the columns of a schedule.
#ifndef LLMC_LIB_REPORT_TIMELINE_H
#define LLMC_LIB_REPORT_TIMELINE_H

#include "lib/planfile/plan_generated.h"

#include <cstdint>
#include <vector>

namespace llmc::report {

// One row of a stage's table that computes.
struct Cell {
  char kind = 'F'; // F, B, W or U
  uint32_t chunk = 0, microBatch = 0;
  uint32_t entry = 0; // row of the table
  int64_t column = 0; // from 0
};

struct Timeline {
  std::vector<std::vector<Cell>> stages;
  int64_t columns = 0; // of F, B and W
  // Of all stages, before the update: how many places there are, and how many hold nothing.
  int64_t cells = 0, empty = 0;
};

// A row stands one column behind the row before it on its stage, and behind the rows whose
// messages it needs. F, B and W take a column each. A plan in a deadlock ends early.
Timeline timelineOf(const planfile::ProgramT &program);

// The most (chunk, micro-batch) pairs that a stage keeps at once, from their first row to
// their last.
uint32_t inFlight(const planfile::ProgramT &program, uint32_t stage);

} // namespace llmc::report

#endif // LLMC_LIB_REPORT_TIMELINE_H
