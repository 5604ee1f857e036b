// Follows what is alive in the arena of each stage over a forecast step. Tests: test/page/run.py.
#ifndef LLMC_LIB_PAGE_MEMORYCURVE_H
#define LLMC_LIB_PAGE_MEMORYCURVE_H

#include "lib/page/Subject.h"
#include "lib/support/Json.h"

namespace llmc::page {

// Returns a list, for each stage: {stage, rank, arena_bytes, kinds [[name, bytes]] (of lib/report/Memory.h), states_bytes,
// slots, curve {seconds, activations, workspace}, peak {at_s, bytes, states, activations, workspace, slots, text}}.
// States are there all the time; activations are those of slots between the first and the last row of the schedule that
// uses them; workspace is what the rows that run touch beside. A value holds from its second to the next.
support::OrderedJson memoryJson(const Subject &subject);

} // namespace llmc::page

#endif // LLMC_LIB_PAGE_MEMORYCURVE_H
