// Shortens the schedule of a long step: between ramp-up and drain every stage repeats the same
// rows for the next micro-batches in the next slots, so that a plan with fewer iterations of them
// has the same faults. Tests: test/planfile/CheckSteadyTest.cpp.
#ifndef LLMC_LIB_PLANFILE_SHORTENEDPLANS_H
#define LLMC_LIB_PLANFILE_SHORTENEDPLANS_H

#include "lib/planfile/plan_generated.h"

#include <optional>

namespace llmc::planfile {

// Holds the shortened plans, which stand for the whole one for this reason. Call iteration t of a
// stage its rows for its t-th advance. From one iteration to the next, rows differ only in
// micro-batch and slot, which advance by the same number, so everything that orders two
// instructions (streams; an event and its last record; a message and its partner, whose
// micro-batches agree) connects iterations t and t + c with one c for all t. A path or a cycle of
// such orders that begins in one iteration therefore begins in every other one too, as far as it
// does not reach ramp-up or drain, and it spans at most the sum of all |c|. That many iterations
// are kept on both sides, and all slots are used in them. Between two steps slots differ by the
// micro-batches that are left out, which `twice` corrects.
struct ShortenedPlans {
  ProgramT once;  // the step
  ProgramT twice; // the tables of two steps, one after the other
};

// Returns nullopt for a plan that has fewer than 64 micro-batches, does not repeat, repeats too
// little to gain from it, or whose stages meet in collectives between ramp-up and drain.
std::optional<ShortenedPlans> shortenSteadyState(const ProgramT &program);

} // namespace llmc::planfile

#endif // LLMC_LIB_PLANFILE_SHORTENEDPLANS_H
