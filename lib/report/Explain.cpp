#include "lib/report/Explain.h"

#include <algorithm>
#include <set>

using nlohmann::json;

namespace llmc::report {
using namespace planfile;
using support::error;

// Returns the pattern of a collective or message: its rule and op. Layers that communicate alike
// share it, with kind, axes and phase.
static std::string patternOf(const PlanIndex &book, const Traffic &t) {
  const OriginT &origin = *book.program.origins[t.origin];
  if (t.isSend)
    return origin.rule;
  std::string text = origin.rule.empty() ? origin.op : origin.rule;
  if (std::optional<NamedOp> cause = book.opRequiring(t))
    text += " of " + shortOp(cause->op->op);
  return origin.recomputed ? text + ", again" : text;
}

static json summaryOf(const PlanIndex &book, const Traffic &t) {
  json axes = book.namesOf(t.axes);
  std::optional<NamedOp> cause = t.isSend ? std::nullopt : book.opRequiring(t);
  json j = {{"name", t.name},
            {"kind", t.kind},
            {"axes", axes},
            {"stage", t.stage},
            {"phase", toString(t.phase)},
            {"bytes", t.bytes},
            {"per_step", t.perStep},
            {"step_bytes", t.bytes * t.perStep},
            {"pattern", patternOf(book, t)},
            {"layer", cause ? cause->layer : -1}};
  if (t.isSend)
    j.update({{"to_stage", t.toStage}, {"chunk", t.chunk}, {"to_chunk", t.toChunk}});
  return j;
}

// Lists what backward computes again, and what forward keeps for that.
static json recomputedOf(const PlanIndex &book) {
  json list = json::array();
  for (const auto &one : book.program.recomputed) {
    uint64_t slots = 1;
    if (one->stage < book.program.stages.size())
      for (const auto &pool : book.program.stages[one->stage]->pools)
        if (pool->chunk == one->chunk)
          slots = pool->slots;
    list.push_back({{"stage", one->stage}, {"layers", one->layers}, {"slots", slots},
                    {"node", one->node},   {"op", shortOp(one->op)}, {"ops", one->ops},
                    {"kept", one->kept},   {"flops", one->flops},    {"bytes", one->bytes}});
  }
  return list;
}

json explainAll(const PlanIndex &book) {
  json collectives = json::array(), sends = json::array();
  for (const Traffic &t : book.traffic)
    (t.isSend ? sends : collectives).push_back(summaryOf(book, t));
  return {{"what", "traffic"}, {"collectives", collectives}, {"sends", sends}, {"recomputed", recomputedOf(book)}};
}

json explainKind(const PlanIndex &book, const std::string &kind) {
  json nodes = json::array();
  std::string name;
  for (const auto &op : book.program.ops) {
    if (op->op != kind && shortOp(op->op) != kind)
      continue;
    name = op->op;
    json cuts = json::array();
    for (const PlanIndex::Cut &cut : book.cutsOf(*op))
      cuts.push_back({{"axis", cut.name},
                      {"tactic", cut.why->tactic},
                      {"rule", cut.why->rule},
                      {"seed", cut.why->seed}});
    std::set<uint32_t> layers(op->layers.begin(), op->layers.end());
    nodes.push_back({{"names", op->names},
                     {"layers", layers.size()},
                     {"backward", op->backward},
                     {"results", json::array()},
                     {"cuts", cuts}});
    for (const auto &result : op->results)
      nodes.back()["results"].push_back(book.describe(*result));
  }
  if (nodes.empty())
    return nullptr;
  return {{"what", "kind"}, {"op", name}, {"nodes", nodes}};
}

support::Result<json> explainJson(const ProgramT &program, const std::string &what) {
  PlanIndex book(program);
  if (what.empty())
    return explainAll(book);
  for (const Traffic &t : book.traffic)
    if (t.name == what) {
      json answer = explainTraffic(book, t);
      answer.update(summaryOf(book, t));
      return answer;
    }
  if (book.sourceOf(what))
    return explainParameter(book, what);
  if (!book.opsOf(what).empty() || book.isInstructionNode(what))
    return explainNode(book, what);
  if (json answer = explainKind(book, what); !answer.is_null())
    return answer;
  if (what == "schedule")
    return explainSchedule(book);
  std::string nearest;
  for (const std::string &name : book.nearest(what))
    nearest += (nearest.empty() ? "" : ", ") + name;
  return error("the program has no collective, node, parameter or kind of op '", what, "', and it is not 'schedule'",
               nearest.empty() ? "" : "; the nearest names are " + nearest);
}

} // namespace llmc::report
