// Static checks of a plan, run by the compiler right before the file is written
// and again by the runtime before the first step.
//
// Every checker looks at all stages and reports all problems it finds (at most
// kMaxFindings each), never only the first. Each requires a plan that checkBounds
// (Program.h) accepts; `checkAll` sees to that.
//
// One representative rank per stage stands for all ranks of the stage. That is
// enough: the ranks of a stage run the same instruction stream, so a fact about
// the order of two instructions of one rank holds for each of its data- and
// tensor-parallel neighbours, and every path of waits through a neighbour
// projects to the same path through the representative.
#ifndef LLMC_LIB_PLANFILE_CHECK_H
#define LLMC_LIB_PLANFILE_CHECK_H

#include "lib/planfile/plan_generated.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace llmc::planfile {

// Findings that one checker reports before it says "and N more".
inline constexpr size_t kMaxFindings = 20;

// One problem. Fields that do not apply are -1 or empty.
struct Finding {
  std::string checker;      // "happens-before", "collectives", ...
  int stage = -1;           // index into Program.stages: all ranks of that stage
  std::string procedure;    // Procedure.name
  int64_t instruction = -1; // index into Procedure.instructions
  int64_t microBatch = -1;
  std::string message;      // subject, rule, what was found
  std::string fix;          // how to fix it; may be empty
};

// Any two accesses to the same arena byte of which one writes are ordered by
// streams, events, messages or collectives, within a step and across two
// consecutive ones; no byte is read before it is written, and no micro-batch
// reads what another one left in its slot.
std::vector<Finding> checkHappensBefore(const ProgramT &program);

// Bytes that several tensors have in turn hold the one that is meant: who reads a tensor
// finds all its bytes as they were written for it in this execution of the procedure.
std::vector<Finding> checkTensors(const ProgramT &program);

// Each accumulator is begun once a step (filled, or written by its first addition), gets as
// much from every micro-batch, and nothing after its reduction; the update writes each
// parameter, master and moment once; what the host reads was written in the step.
std::vector<Finding> checkUpdates(const ProgramT &program);

// Every member of a communicator issues the same sequence of collectives, every
// send meets one receive of the same parts, and counts agree with buffers.
std::vector<Finding> checkCollectives(const ProgramT &program);

// The union of the launch orders of all ranks over all communicators is
// acyclic, so no step can hang even where each communication blocks the stream
// that issues it until all its members have arrived.
std::vector<Finding> checkLaunchOrder(const ProgramT &program);

// The same of a plan whose tables hold two steps, one behind the other (CheckSteady.h).
std::vector<Finding> checkHappensBeforeOfTwo(const ProgramT &program);

// Each layer, parameter element, gradient and micro-batch exactly once.
std::vector<Finding> checkConservation(const ProgramT &program);

// Every buffer lies inside the arena, and Stage.live_bytes is what `peakLiveBytes` finds.
std::vector<Finding> checkMemory(const ProgramT &program);

// Largest number of arena bytes of one rank of the stage that hold a value at
// one point of the step, in issue order: persistent bytes, plus all bytes from
// their write to the last read of what was written. The compiler stores it in
// Stage.live_bytes.
uint64_t peakLiveBytes(const ProgramT &program, unsigned stage);
// The same of all stages; of a long step by what it repeats.
std::vector<uint64_t> peakLiveBytes(const ProgramT &program);

// checkBounds, then all of the above if the plan can be walked. A long step is checked by
// what it repeats; row by row only if something is found there.
std::vector<Finding> checkAll(const ProgramT &program);

// One line a finding and one for its fix.
std::string formatFindings(const std::vector<Finding> &findings);

} // namespace llmc::planfile

#endif // LLMC_LIB_PLANFILE_CHECK_H
