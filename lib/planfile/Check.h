// Checks a plan statically: the compiler does so right before it writes the file, and the runtime
// again before the first step. Tests: test/planfile/Check*Test.cpp.
//
// Every checker looks at all stages and reports all problems that it finds (at most kMaxFindings
// each), never only the first. Each requires a plan that checkBounds (Program.h) accepts;
// `checkAll` ensures that.
//
// One representative rank per stage stands for all ranks of the stage. That is enough: the ranks
// of a stage run the same instruction stream, so a fact about the order of two instructions of
// one rank holds for each of its data- and tensor-parallel neighbours, and every path of waits
// through a neighbour projects to the same path through the representative.
#ifndef LLMC_LIB_PLANFILE_CHECK_H
#define LLMC_LIB_PLANFILE_CHECK_H

#include "lib/planfile/plan_generated.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace llmc::planfile {

// Limits the findings that one checker reports before its last one, "and N more findings".
inline constexpr size_t kMaxFindings = 20;

// Describes one problem. Fields that do not apply are -1 or empty.
struct Finding {
  std::string checker;      // "happens-before", "collectives", ...
  int stage = -1;           // index into Program.stages: all ranks of that stage
  std::string procedure;    // Procedure.name
  int64_t instruction = -1; // index into Procedure.instructions
  int64_t microBatch = -1;
  std::string message;      // subject, rule, what was found
  std::string fix;          // how to fix it; may be empty
};

// Checks that any two accesses to the same arena byte of which one writes are ordered by streams,
// events, messages or collectives, within a step and across two consecutive ones; that no byte is
// read before it is written; and that no micro-batch reads what another one left in its slot.
std::vector<Finding> checkHappensBefore(const ProgramT &program);

// Checks tensors that share arena bytes: each read of a tensor finds all its bytes as they were
// written for that tensor in the same execution of the procedure.
std::vector<Finding> checkTensors(const ProgramT &program);

// Checks that each accumulator is begun once a step (filled, or written by its first addition),
// gets as many additions from every micro-batch, and none after its reduction; that the update
// writes each parameter, master and moment once; and that the step writes what the host reads
// after it.
std::vector<Finding> checkUpdates(const ProgramT &program);

// Checks that every member of a communicator issues the same sequence of collectives, that every
// send meets one receive of the same parts, and that counts agree with buffer sizes.
std::vector<Finding> checkCollectives(const ProgramT &program);

// Checks that the union of the launch orders of all ranks over all communicators is acyclic, so
// that no step can deadlock even where each communication blocks the stream that issues it until
// all its members have arrived.
std::vector<Finding> checkLaunchOrder(const ProgramT &program);

// Runs checkHappensBefore() on a plan whose tables already hold two steps, one after the other
// (ShortenedPlans::twice in ShortenedPlans.h).
std::vector<Finding> checkHappensBeforeUnrolled(const ProgramT &program);

// Checks that each layer, source element, moment, gradient and micro-batch is there exactly once,
// and the rules of the schedule table (CheckTable.h).
std::vector<Finding> checkConservation(const ProgramT &program);

// Checks that every buffer lies inside the arena, that no two persistent tensors or results share
// bytes, that an instruction's operands overlap only where it may run in place, and that
// Stage.live_bytes is what `peakLiveBytes` returns.
std::vector<Finding> checkMemory(const ProgramT &program);

// Returns the largest number of arena bytes of one rank of the stage that hold a value at one
// point of the step, in issue order: persistent bytes, plus all others from their write to the
// last read of what was written.
uint64_t peakLiveBytes(const ProgramT &program, unsigned stage);
// Returns the peak of every stage. A long step is measured on its shortened plan
// (ShortenedPlans.h).
std::vector<uint64_t> peakLiveBytes(const ProgramT &program);
// Sets Stage.live_bytes of every stage to its peak.
void updateLiveBytes(ProgramT &program);

// Runs checkBounds, and if it accepts the plan all other checkers. A long step is checked on its
// shortened plans (ShortenedPlans.h); the whole table is checked only if those have findings.
// Empty: the plan is good.
std::vector<Finding> checkAll(const ProgramT &program);

// Formats one line for each finding and one for its fix.
std::string formatFindings(const std::vector<Finding> &findings);

} // namespace llmc::planfile

#endif // LLMC_LIB_PLANFILE_CHECK_H
