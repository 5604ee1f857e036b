// Reads what a run of a program measured, for a page that shows it beside the forecast. Tests: test/page/run.py.
#ifndef LLMC_LIB_PAGE_MEASURED_H
#define LLMC_LIB_PAGE_MEASURED_H

#include "lib/page/Traffic.h"

#include <string>

namespace llmc::page {

// Reads the trace that a program wrote with --trace. Returns {steps [{step, seconds}], step (the one with the median time, of which
// all that follows is), seconds, stages [{stage, rank, measured {compute_s, communication_s, wait_s}, predicted {same}}],
// traffic [{group, calls, measured_s, predicted_s}] (a call, from when the rank comes to it, of the rows of trafficJson()),
// entries (as those of timelineJson(), in units of `unit` seconds from the start of the step)}. Fails for a file that is no
// trace, or is one of another program.
support::Result<support::OrderedJson> readTrace(const Subject &subject, const std::vector<TrafficGroup> &groups, double unit,
                                                const std::string &path);

// Reads the lines that a program wrote with --metrics. Returns {steps (how many), median_s, fastest_s, slowest_s (the first
// step left out, if there are others), every (of how many steps one is listed), step, step_time_s (lists)}.
support::Result<support::OrderedJson> readMetrics(const std::string &path);

} // namespace llmc::page

#endif // LLMC_LIB_PAGE_MEASURED_H
