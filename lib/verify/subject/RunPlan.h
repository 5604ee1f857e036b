// Steps by a plan and its kernels, in this process.
#ifndef LLMC_LIB_VERIFY_SUBJECT_RUNPLAN_H
#define LLMC_LIB_VERIFY_SUBJECT_RUNPLAN_H

#include "lib/planfile/Program.h"
#include "lib/support/Error.h"
#include "lib/verify/steps/Training.h"
#include "runtime/cpu/Executor.h"
#include "runtime/compute/Kernels.h"

namespace llmc::verify {

// Runs the steps of `trial` on all ranks of the plan. Kernels are loaded once and
// serve every plan that numbers them alike (a mutant). An error tells why the
// plan cannot run, for example that all ranks wait for each other. An inference is
// run for each step, from the last to the first. The plan must
// pass checkBounds(); nothing else is checked.
support::Result<Outcome> runPlan(const planfile::ProgramT &program,
                                 const runtime::Kernels &kernels, const Trial &trial,
                                 const runtime::ExecutorOptions &options = {});

// The pieces of the above, for those who drive an executor themselves.
void fillWeights(const runtime::Executor &executor, const NamedTensors &sources);
void writeScalars(const runtime::Executor &executor,
                  const std::map<std::string, double> &scalars);
// One buffer per input of the plan with all rows of the step, dense, in the plan's types and as the loader permutes it.
support::Result<std::vector<std::vector<std::byte>>>
packInputs(const planfile::ProgramT &program, const StepData &data);
support::Result<NamedTensors> gatherSources(const runtime::Executor &executor,
                                            planfile::StateRole role);
// Largest absolute difference between the copies that ranks hold of one element
// of a parameter or of a gradient; infinite if only one of them is a number.
double replicaError(const runtime::Executor &executor);

// Initial weights as the runtime would take them: from the model's files, else
// drawn from `seed` by its own rule. `folder` is where files are looked for too.
support::Result<NamedTensors> initialWeights(const planfile::ProgramT &program,
                                             const runtime::Kernels &kernels, uint64_t seed,
                                             const std::string &folder);

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_SUBJECT_RUNPLAN_H
