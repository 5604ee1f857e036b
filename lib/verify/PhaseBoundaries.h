// Interprets the IR at every phase boundary and compares the outcome with the imported model's.
// Tested by test/numerics/verify.py (borders) and test/numerics/edits.py (noticed).
#ifndef LLMC_LIB_VERIFY_PHASEBOUNDARIES_H
#define LLMC_LIB_VERIFY_PHASEBOUNDARIES_H

#include "lib/verify/reference/PlanChecks.h"

namespace llmc::verify {

// Adds the checks fp64:PHASE:... for the module of `subject` after `phase`:
//   raise      logits of @forward against those of the imported model
//   train      loss and gradients against @forward, with derivatives by dual numbers
//   shard      annotations are consistent; the global program computes what it did; its
//              partition computes what the model does on all ranks
//   partition  the functions of the stages, on all ranks of the mesh
//   schedule   the plan dialect, on all ranks: arenas and instructions
// An inference compares all outputs at every boundary and has no boundary train. Diagnostics
// become the note of a failed check. Returns whether every check passed; stores in `outcome`,
// unless null, what the module computed (nothing for raise).
bool checkPhaseBoundary(Phase phase, const Subject &subject, const Reference &reference,
                        Report &report, Outcome *outcome = nullptr);

// Locates a failed check: checks the phase boundaries in order, sets report.border to the first
// that fails and report.place to describeFaultLocation() of it, and adds those of their checks that
// `report` lacks. Sets report.border to "emit" if every boundary passes but a check other than
// oracle:, types: and updates:skip has failed.
void locateFault(const Subject &subject, const Reference &reference, Report &report);

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_PHASEBOUNDARIES_H
