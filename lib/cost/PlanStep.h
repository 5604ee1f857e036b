// Returns what a step of our own plans takes, whose messages travel beside compute, from the order of their passes. Tests: test/cost,
// test/numerics/simulated.py (beside simulated plans).
#ifndef LLMC_LIB_COST_PLANSTEP_H
#define LLMC_LIB_COST_PLANSTEP_H

#include "lib/cost/Stages.h"

namespace llmc::cost {

// Sets the parts of a step, adding to the stages what data-parallel ranks exchange in each micro-batch.
void composePlan(const Table &table, const Machine &machine, std::vector<Stage> &stages, StepTime &step, bool isBound);

} // namespace llmc::cost

#endif // LLMC_LIB_COST_PLANSTEP_H
