// Lists what ranks send each other in a forecast step, what it costs, and why it is sent. Tests: test/page/run.py.
#ifndef LLMC_LIB_PAGE_TRAFFIC_H
#define LLMC_LIB_PAGE_TRAFFIC_H

#include "lib/page/Subject.h"
#include "lib/support/Json.h"

namespace llmc::page {

// Holds collectives or messages that layers and stages have alike, and what one rank of the stage that they cost most
// takes for them in a step, in seconds. Messages between stages count on both of their ends.
struct TrafficGroup {
  std::vector<size_t> members; // of PlanIndex::traffic
  uint32_t stage = 0;          // the one that they cost most
  uint64_t calls = 0;
  double bytes = 0;            // of a step
  double moving = 0, waiting = 0, exposed = 0; // from when all members have come; until then; what nothing hides
};

// Groups the traffic of a plan by kind, axes, phase, pattern and bytes, the most exposed first; `summaries` are those
// of report::explainAll() in the order of PlanIndex::traffic.
std::vector<TrafficGroup> groupTraffic(const Subject &subject, const std::vector<nlohmann::json> &summaries);
std::vector<nlohmann::json> summariesOf(const Subject &subject);

// Returns the rows of a table, one for each group: {name, kind, axes, phase, pattern, members (collectives that are alike),
// stages [from, to], bytes (a call), ranks, groups, link, stage (the one that it costs most), calls, step_bytes, each_s,
// step_s, wait_s, exposed_s (of one rank of that stage and a step), why {node, op, tactic, rule, seed, partition, moved},
// overlap, tensors [{name, layout, needed}], alternatives [{name, text}]}. What is said of one call is said of the
// first member's.
support::OrderedJson trafficJson(const Subject &subject, const std::vector<TrafficGroup> &groups,
                                 const std::vector<nlohmann::json> &summaries);

} // namespace llmc::page

#endif // LLMC_LIB_PAGE_TRAFFIC_H
