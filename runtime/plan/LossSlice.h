// Finds the part of a training step that its loss needs: the forward passes without the
// gradients and the update. Executor::evaluate() runs it. The test is test/runtime/TrainerTest.cpp
// (EvaluationChangesNothing, EvaluationAlone).
#ifndef LLMC_RUNTIME_PLAN_LOSSSLICE_H
#define LLMC_RUNTIME_PLAN_LOSSSLICE_H

#include "lib/planfile/Program.h"
#include "lib/support/Error.h"

#include <string_view>
#include <vector>

namespace llmc::runtime {

// Holds, by stage, procedure and instruction, whether the instruction runs.
using LossSlice = std::vector<std::vector<std::vector<bool>>>;
// Returns the output that an evaluation gives: the loss without what balances experts, which would make losses of
// different data or settings incomparable.
std::string_view evaluatedOutput(const planfile::ProgramT &program);
// Returns the slice, found by following bytes, messages and collectives back from the evaluated
// output, "tokens" and "moe_lost". Waits, records and messages are always in it, so that no stream misses
// an event and no group of messages a member; all members of a collective agree. Fails if
// what would run writes a weight or a moment.
support::Result<LossSlice> lossSlice(const planfile::ProgramT &program);

} // namespace llmc::runtime

#endif // LLMC_RUNTIME_PLAN_LOSSSLICE_H
