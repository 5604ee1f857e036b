// Splits the time of a simulated rank. Tests: test/simulate.
#ifndef LLMC_LIB_SIMULATE_ACCOUNTS_H
#define LLMC_LIB_SIMULATE_ACCOUNTS_H

#include "lib/simulate/Simulation.h"

namespace llmc::simulate {

// Returns the time of `rank`, a rank of `stage`: each moment is one of compute, if its first stream computes; of the
// collective or message that began first, if one is in flight; idle. Adds to timeline.exposed what events of the rank take
// of compute; needs one number there for each event.
RankTime accountOf(const planfile::ProgramT &program, const runtime::StageProgram &stage, uint32_t rank,
                   Timeline &timeline);

} // namespace llmc::simulate

#endif // LLMC_LIB_SIMULATE_ACCOUNTS_H
