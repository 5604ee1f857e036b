// Explains why a plan is as it is, in words and as JSON. Every figure is computed from the plan;
// names, shapes and reasons are those that the passes wrote into it. Tests:
// test/planfile/ExplainTest.cpp.
#ifndef LLMC_LIB_REPORT_EXPLAIN_H
#define LLMC_LIB_REPORT_EXPLAIN_H

#include "lib/report/PlanIndex.h"
#include "lib/support/Error.h"

namespace llmc::report {

// Returns the answer to `what` about a plan that checkBounds accepts, where `what` is one of
//   ""            {what: "traffic", collectives [{name, kind, axes, stage, phase, bytes,
//                 per_step, step_bytes, pattern, layer}], sends [same, to_stage],
//                 recomputed [{stage, layers, slots, node, op, ops, kept, flops, bytes}]}
//   a collective  {what: "collective", name, ..., why {node, op, tactic, rule, seed,
//   or message    partition, moved}, tensors, made_by, read_by, members, overlap, alternatives}
//   a node        {what: "node", name, ops [{op, operands, results, cuts}], instructions,
//                 saved_bytes, collectives}
//   a parameter   {what: "parameter", name, states, cuts, read_by, collectives}
//   an op kind    {what: "kind", op, nodes}
//   "schedule"    {what: "schedule", schedule, virtual_stages, micro_batches, bubble {cells, empty},
//                 messages (a step, of one rank of each stage), in_flight and activations (bytes of a
//                 rank) [one a stage], alternatives [same, flags, possible, text]}: what other schedules
//                 would change, counted from the order of their steps; bytes are this plan's of one
//                 micro-batch times the slots
// An error for any other name; it lists the nearest names.
support::Result<nlohmann::json> explainJson(const planfile::ProgramT &program,
                                            const std::string &what);

// Formats an answer of explainJson() for people.
std::string explainText(const nlohmann::json &answer);

// Formats what explain says of other schedules, and the price of an alternative, if it has one (lib/advise): seconds of a step
// where a flag makes it, else those of its own calls.
std::string scheduleText(const nlohmann::json &answer);
std::string priceText(const nlohmann::json &alternative);

// Builds the parts of explainJson(); explainKind() returns null for an unknown kind.
nlohmann::json explainAll(const PlanIndex &book);
nlohmann::json explainTraffic(const PlanIndex &book, const Traffic &t);
nlohmann::json explainNode(const PlanIndex &book, const std::string &name);
nlohmann::json explainParameter(const PlanIndex &book, const std::string &name);
nlohmann::json explainKind(const PlanIndex &book, const std::string &kind);
nlohmann::json explainSchedule(const PlanIndex &book);
// Lists the alternatives to a collective or message with their cost: [{name, text, ...}].
nlohmann::json alternativesTo(const PlanIndex &book, const Traffic &t);

} // namespace llmc::report

#endif // LLMC_LIB_REPORT_EXPLAIN_H
