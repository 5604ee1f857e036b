// Cuts the bytes that the entries of one stage access into intervals: ranges of which every access
// covers all bytes or none. The cut is made once, so that an analysis of the step works on interval
// numbers instead of cutting ranges at each access. Tests:
// test/planfile/CheckRandomTest.cpp (PeakLiveBytesEqualsCounting, HappensBeforeEqualsReachability).
#ifndef LLMC_LIB_PLANFILE_CHECKBYTES_H
#define LLMC_LIB_PLANFILE_CHECKBYTES_H

#include "lib/planfile/Trace.h"

#include <span>

namespace llmc::planfile {

// Represents the intervals [first, last) of a stage.
struct IntervalRange {
  uint32_t first = 0, last = 0;
};

// Describes an access of an instruction to a range of intervals.
struct IntervalAccess : IntervalRange {
  bool read = false, write = false;
  bool slotted = false; // the buffer differs between slots
  uint32_t lane = 0;    // whose slot it uses
};

// Holds the intervals of a stage and the accesses of every row of its table.
class StageIntervals {
public:
  explicit StageIntervals(const StageT &stage);

  size_t intervals() const { return offsets.empty() ? 0 : offsets.size() - 1; }
  // Returns the arena offset of an interval's first byte; of a range's `last` it is the end of the
  // range.
  uint64_t begin(uint32_t interval) const { return offsets[interval]; }
  uint64_t size(uint32_t interval) const { return offsets[interval + 1] - offsets[interval]; }

  // Returns the intervals of the buffer of a state, host scalar, output or result, in slot 0.
  IntervalRange of(const BufferRefT &buffer) const {
    return range(buffer.offset, buffer.offset + buffer.size);
  }
  // Returns the non-empty accesses of an instruction in a row of the table, in operand order.
  std::span<const IntervalAccess> of(uint32_t entry, uint32_t instruction) const {
    const Run &run = runs[runOf[entry]];
    return {run.accesses.data() + run.begin[instruction],
            run.accesses.data() + run.begin[instruction + 1]};
  }

private:
  // Holds the accesses of a procedure in given slots; rows that agree in both share it.
  struct Run {
    std::vector<uint32_t> begin; // of each instruction and the end: index into accesses
    std::vector<IntervalAccess> accesses;
  };

  void addOffsets(uint64_t begin, uint64_t end);
  IntervalRange range(uint64_t begin, uint64_t end) const;
  Run walk(const ProcedureT &procedure, const EntryT &entry, const Run *same) const;

  std::vector<uint64_t> offsets; // arena offsets, ascending; interval i is [i, i + 1)
  std::vector<Run> runs;
  std::vector<uint32_t> runOf; // of each row of the table: index into runs
};

} // namespace llmc::planfile

#endif // LLMC_LIB_PLANFILE_CHECKBYTES_H
