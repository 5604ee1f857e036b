// Holds what every part of a page is made of: a plan, its forecast, and which rank stands for each stage. Tests:
// test/page/run.py.
#ifndef LLMC_LIB_PAGE_SUBJECT_H
#define LLMC_LIB_PAGE_SUBJECT_H

#include "lib/report/PlanIndex.h"
#include "lib/simulate/Forecast.h"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace llmc::page {

// Holds seconds from the start of the step; end < begin: it never ran.
struct Span {
  double begin = 0, end = -1;
  bool ran() const { return end >= begin; }
  void add(double from, double to) {
    begin = ran() ? std::min(begin, from) : from;
    end = std::max(end, to);
  }
};

struct Subject {
  Subject(const planfile::ProgramT &program, const cost::Machine &machine, const simulate::Forecast &forecast);

  const planfile::ProgramT &program;
  const cost::Machine &machine;
  const simulate::Forecast &forecast;
  report::PlanIndex index;
  std::vector<const simulate::RankTime *> ranks; // by stage: the one that computes longest
  // Holds, by stage and row of its table, when that rank ran it: on any stream, and on the first one, which computes.
  std::vector<std::vector<Span>> entries, computed;

  // Returns the collective or message of an op (an index into index.traffic); -1 if none is listed for it.
  int64_t trafficOf(uint32_t stage, uint32_t op) const { return byOp[stage][op]; }
  uint32_t stages() const { return static_cast<uint32_t>(program.stages.size()); }
  // Returns the op of an instruction, by its procedure and its place there.
  uint32_t opAt(uint32_t stage, uint32_t procedure, uint32_t place) const;

private:
  void chooseRanks();
  void findTraffic();
  // Finds collectives over stages in those for which they are not listed.
  void findSpanning();
  // Returns the message that a rank of a ring sends while it receives with `op`: both stand side by side.
  int64_t ringOf(uint32_t stage, uint32_t op) const;
  std::vector<std::vector<int64_t>> byOp;
};

} // namespace llmc::page

#endif // LLMC_LIB_PAGE_SUBJECT_H
