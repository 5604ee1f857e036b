// Compares outcomes and plans with the reference. Tested by test/numerics/verify.py.
#ifndef LLMC_LIB_VERIFY_REFERENCE_PLANCHECKS_H
#define LLMC_LIB_VERIFY_REFERENCE_PLANCHECKS_H

#include "lib/verify/reference/Reference.h"
#include "lib/verify/routes/RouteReplay.h"
#include "lib/verify/subject/Report.h"

#include <string>

namespace llmc::verify {

// Adds static:NAME for every checker of lib/planfile/Check.h; only static:bounds if that fails.
void checkStatic(const planfile::ProgramT &program, Report &report);

// Adds fp64:BORDER:... for loss, gradients, norm and replicas of an outcome in double, or for the
// outputs of an inference, with the limit 1e-10. Returns whether all pass.
bool checkExact(const Outcome &got, const Reference &reference, const std::string &border,
                Report &report);
// Adds a check of what `replay` saw of a plan's routes, if the plan has routers: choices that are not those of
// double are near-ties (lib/verify/routes). Returns whether it passes.
bool checkRoutes(const std::string &name, const RouteReplay &replay, const Reference &reference, Report &report);
// Runs the plan with its kernels and, in near-ties, on the routes of the reference; stores the `outcome` and
// adds kernels:... with the limits of lib/verify/reference/Limits.h. Returns whether all pass.
bool checkKernels(const Subject &subject, const Reference &reference, Outcome &outcome,
                  Report &report);

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_REFERENCE_PLANCHECKS_H
