// Lists what runs when in a forecast, in so few bytes that a page can carry it. Tests: test/page/run.py.
#ifndef LLMC_LIB_PAGE_EVENTS_H
#define LLMC_LIB_PAGE_EVENTS_H

#include "lib/page/Subject.h"
#include "lib/support/Json.h"

namespace llmc::page {

// Returns the timeline of one rank of each stage. Times are whole numbers of `unit_s`:
//   unit_s, tolerance (units by which a time may be off), events (how many there are), kinds,
//   strings [names of ops and nodes]
//   ops [[name, kind, phase, node, bytes, traffic]]: indices into strings, kinds, phases and traffic (-1: none)
//   lanes [{stage, rank, stream, name}]
//   blocks [[op, gap, length, op, ...]]: ops of one stream in one row of a schedule, each after a gap behind the end of
//     the op before it (the first behind the start of the block). Rows that differ by no more than the tolerance share
//     one block
//   runs [of each lane: [entry, block, start, ...]]
//   entries [of each stage: [letter, chunk, micro_batch, begin, end, ...]]: rows of the schedule; F, B, W or U, else ""
// A collective or message is two events where it waits for other ranks first, of which the first is of the kind "wait" and
// has its name. What a stream waits for of its own rank is listed on the first stream alone; what takes no time is left out.
support::OrderedJson timelineJson(const Subject &subject);

// Returns the names of the kinds of events, in the order of their numbers.
const std::vector<const char *> &kindsOfEvents();

} // namespace llmc::page

#endif // LLMC_LIB_PAGE_EVENTS_H
