// Computes when each part of a step runs if all take equally long: the columns of a schedule.
// Tests: test/planfile/ReportTest.cpp.
#ifndef LLMC_LIB_REPORT_TIMELINE_H
#define LLMC_LIB_REPORT_TIMELINE_H

#include "lib/planfile/plan_generated.h"

#include <cstdint>
#include <vector>

namespace llmc::report {

// Represents one row of a stage's table that computes.
struct Cell {
  char kind = 'F'; // F, B, W or U
  uint32_t chunk = 0, microBatch = 0;
  uint32_t entry = 0; // row of the table
  int64_t column = 0; // from 0
};

// Returns F, B, W or U for what a procedure computes, 0 for one that computes nothing.
char letterOf(planfile::ProcedureKind kind);

struct Timeline {
  std::vector<std::vector<Cell>> stages;
  int64_t columns = 0; // of F, B and W
  // Counts the positions of all stages before the update, and those that are empty (the bubble).
  int64_t cells = 0, empty = 0;
};

// Assigns the columns: a row is one column after the row before it on its stage, and after the
// rows whose messages it needs. F, B and W take a column each. A plan that deadlocks leaves the
// remaining rows in column 0.
Timeline timelineOf(const planfile::ProgramT &program);

// Returns the largest number of (chunk, micro-batch) pairs that a stage keeps at once, from their
// first row to their last.
uint32_t inFlight(const planfile::ProgramT &program, uint32_t stage);

} // namespace llmc::report

#endif // LLMC_LIB_REPORT_TIMELINE_H
