// A long step repeats itself: between ramp and drain every stage runs the same rows for the
// next micro-batches, in the next slots. Plans with fewer turns of that stand for it.
#ifndef LLMC_LIB_PLANFILE_CHECKSTEADY_H
#define LLMC_LIB_PLANFILE_CHECKSTEADY_H

#include "lib/planfile/plan_generated.h"

#include <optional>

namespace llmc::planfile {

// Why they stand for it. Call turn t of a stage its rows for its t-th advance. Rows are equal
// from turn to turn but for micro-batch and slot, which move on by the same number, so
// everything that orders two instructions (streams; an event and its last record; a message
// and its partner, whose micro-batches agree) joins turns t and t + c with one c for all t. A
// path or a cycle of such orders that begins at a turn therefore begins at every other one
// too, as far as ramp and drain are out of its reach, and it reaches no further than the sum
// of all |c|. So many turns, on both sides, are kept, and all slots are used in them. Between
// two steps slots differ by the micro-batches that are left out, which `twice` corrects.
struct SteadyPlans {
  ProgramT once;  // the step
  ProgramT twice; // the tables of two steps, one behind the other
};

// Nothing for a plan that repeats nothing, too little, or otherwise.
std::optional<SteadyPlans> steadyPlans(const ProgramT &program);

} // namespace llmc::planfile

#endif // LLMC_LIB_PLANFILE_CHECKSTEADY_H
