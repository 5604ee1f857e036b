// What of a training step its loss needs: the forward passes, not the gradients,
// not the update.
#ifndef LLMC_RUNTIME_PLAN_LOSSSLICE_H
#define LLMC_RUNTIME_PLAN_LOSSSLICE_H

#include "lib/planfile/Program.h"
#include "lib/support/Error.h"

#include <vector>

namespace llmc::runtime {

// By stage, procedure and instruction: is it to run? Found by following bytes, messages
// and collectives back from the outputs "loss" and "tokens". Waits, records and messages
// always run, so that no stream misses an event and no group of messages a member; all
// members of a collective agree. An error: what runs would change a weight or a moment.
using LossSlice = std::vector<std::vector<std::vector<bool>>>;
support::Result<LossSlice> lossSlice(const planfile::ProgramT &program);

} // namespace llmc::runtime

#endif // LLMC_RUNTIME_PLAN_LOSSSLICE_H
