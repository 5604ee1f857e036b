// Runs steps by a plan and its kernels, in this process. Tested by
// test/verify/steps/RepeatedStepsTest.cpp (runPlan) and test/verify/StateChecksTest.cpp
// (initialWeights).
#ifndef LLMC_LIB_VERIFY_SUBJECT_RUNPLAN_H
#define LLMC_LIB_VERIFY_SUBJECT_RUNPLAN_H

#include "lib/planfile/Program.h"
#include "lib/support/Error.h"
#include "lib/verify/routes/RouteReplay.h"
#include "lib/verify/steps/Training.h"
#include "runtime/cpu/Executor.h"
#include "runtime/compute/Kernels.h"

namespace llmc::verify {

// Runs the steps of `trial` on all ranks of the plan; for an inference one run a step, from the
// last step to the first. The kernels serve every plan that numbers them alike, such as a mutant.
// Fails with the reason why the plan cannot run, for example that all ranks wait for each other.
// `replay` corrects the routes, unless null.
// Requires a plan that passes checkBounds(); checks nothing else.
support::Result<Outcome> runPlan(const planfile::ProgramT &program,
                                 const runtime::Kernels &kernels, const Trial &trial,
                                 runtime::ExecutorOptions options = {}, RouteReplay *replay = nullptr);

// Writes the values of `sources` through the states' views into the parameters and master weights
// of every rank. Leaves states without a source as they are.
void fillWeights(const runtime::Executor &executor, const NamedTensors &sources);
// Writes the host scalars of one step, as float, into every arena.
void writeScalars(const runtime::Executor &executor,
                  const std::map<std::string, double> &scalars);
// Returns one dense buffer per input of the plan with all rows of the step, in the plan's types
// and permuted as the loader does. Fails if an input is missing or has another shape.
support::Result<std::vector<std::vector<std::byte>>>
packInputs(const planfile::ProgramT &program, const StepData &data);
// Gathers the states of one role from all ranks, by source tensor.
support::Result<NamedTensors> gatherSources(const runtime::Executor &executor,
                                            planfile::StateRole role);
// Returns the largest absolute difference between copies of one element of a parameter or
// gradient on different ranks; infinite if only one of two copies is a number.
double maxReplicaDifference(const runtime::Executor &executor);

// Returns the initial weights as the runtime would take them: from the model's files, which it
// also looks for in `folder`, else drawn from `seed` by its own rule.
support::Result<NamedTensors> initialWeights(const planfile::ProgramT &program,
                                             const runtime::Kernels &kernels, uint64_t seed,
                                             const std::string &folder);

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_SUBJECT_RUNPLAN_H
