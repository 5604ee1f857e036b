// Runs a plan in virtual time: the same instructions, streams, events, messages and collectives as
// runtime/cpu/StreamEngine.h, each for as long as Prices.h says. Tests: test/simulate.
#ifndef LLMC_LIB_SIMULATE_SIMULATION_H
#define LLMC_LIB_SIMULATE_SIMULATION_H

#include "lib/simulate/Prices.h"
#include "lib/support/Error.h"
#include "runtime/profile/Trace.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace llmc::simulate {

// Tells what ranks run on. Workers drive ranks one instruction at a time, as the threads of a CPU do; on accelerators
// (workers 0) every stream of every rank goes on by itself, and one rank stands for all of its stage.
struct Machine {
  unsigned workers = 0;
};

// Splits the seconds of a step on one rank: what its first stream computes, what it waits for messages and collectives
// under way, by what users call their axis, and what it idles: until a peer comes, or has computed what it sends.
struct RankTime {
  uint32_t rank = 0, stage = 0;
  double compute = 0, idle = 0;
  std::map<std::string, double> exposed;
};

struct Timeline {
  double step = 0;                          // seconds
  std::vector<runtime::TraceEvent> events;  // of all simulated ranks; nanoseconds from the start, at whole ones
  // Tells of each event when what it does began, after those that it waits for have come; nanoseconds.
  std::vector<uint64_t> moved;
  // Tells of each event for how long its rank computes nothing while it is the first collective or message under way; seconds.
  std::vector<double> exposed;
  std::vector<RankTime> ranks;              // that were simulated
};

using Stages = std::vector<std::unique_ptr<runtime::StageProgram>>;
Stages layOut(const planfile::ProgramT &program);

// Returns what a step takes. Fails if the ranks block each other, which checkBounds() and the checkers exclude.
support::Result<Timeline> simulate(const planfile::ProgramT &program, const Stages &stages, const Prices &prices,
                                   const Machine &machine);

} // namespace llmc::simulate

#endif // LLMC_LIB_SIMULATE_SIMULATION_H
