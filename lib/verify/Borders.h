// The IR of each border, run by its reference meaning and compared with the model.
#ifndef LLMC_LIB_VERIFY_BORDERS_H
#define LLMC_LIB_VERIFY_BORDERS_H

#include "lib/verify/Verify.h"

namespace llmc::verify {

// Adds checks fp64:BORDER:... for the module of `subject` at one border:
//   raise      logits of @forward against those of the imported model
//   train      loss and gradients against @forward, its derivatives by differences
//   shard      annotations agree; the global program is unchanged; partitioned, it
//              equals the model on all ranks
//   partition  all ranks of the mesh
//   schedule   all ranks, arenas and instructions of the plan dialect
// Of an inference all outputs are compared everywhere; there is no border train.
// What a diagnostic says goes to the note of a failed check. Returns whether all
// hold; `outcome`, if given, is what the border computed (none for raise).
bool checkBorder(Phase phase, const Subject &subject, const Reference &reference, Report &report,
                 Outcome *outcome = nullptr);

// After a check failed: runs the borders in order and sets report.border and
// report.place. If the numbers of every border are right, the fault is in "emit".
void findBorder(const Subject &subject, const Reference &reference, Report &report);

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_BORDERS_H
