#include "lib/page/Traffic.h"

#include "lib/page/MeshPicture.h"
#include "lib/report/Explain.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

using namespace llmc;
using namespace llmc::page;
using nlohmann::json;
using planfile::Body;
using support::OrderedJson;

namespace {

// Holds what one stage takes for one collective or message, in seconds of a step.
struct Cost {
  uint64_t calls = 0;
  double moving = 0, waiting = 0, exposed = 0;
};
using Costs = std::map<size_t, Cost>; // by index of PlanIndex::traffic

bool computes(Body kind) {
  return kind == Body::Launch || kind == Body::Matmul || kind == Body::Copy || kind == Body::Fill || kind == Body::Feed;
}

// Adds up what a rank takes for its traffic. A moment in which nothing computes is exposed, and belongs to what began first, as
// in lib/simulate/Accounts.h.
class RankCosts {
public:
  RankCosts(const Subject &subject, uint32_t stage) : subject(subject), stage(stage) {}

  Costs run() {
    const simulate::Timeline &timeline = subject.forecast.timeline;
    for (size_t i = 0; i < timeline.events.size(); ++i)
      if (timeline.events[i].rank == subject.ranks[stage]->rank)
        add(timeline.events[i], timeline.moved[i]);
    std::sort(marks.begin(), marks.end(), [](const Mark &x, const Mark &y) { return x.when < y.when; });
    sweep();
    return std::move(costs);
  }

private:
  struct Mark {
    uint64_t when, begun;
    int change;
    int64_t traffic; // kCompute: computes
  };
  static constexpr int64_t kCompute = -2;

  void add(const runtime::TraceEvent &event, uint64_t moved) {
    const runtime::Op &op = subject.forecast.stages[stage]->ops[event.op];
    bool communicates = op.kind == Body::Collective || op.kind == Body::Send || op.kind == Body::Recv;
    if (!communicates && !computes(op.kind))
      return;
    int64_t traffic = communicates ? subject.trafficOf(stage, event.op) : kCompute;
    if (traffic >= 0) {
      Cost &cost = costs[size_t(traffic)];
      // A rank of a ring receives while it sends: one of both counts.
      if (op.kind != Body::Recv || subject.index.traffic[size_t(traffic)].isSend) {
        ++cost.calls;
        cost.moving += double(event.end - moved) * 1e-9;
        cost.waiting += double(moved - event.begin) * 1e-9;
      }
    }
    if (moved < event.end) {
      marks.push_back({moved, moved, 1, traffic});
      marks.push_back({event.end, moved, -1, traffic});
    }
  }

  void sweep() {
    std::multiset<std::pair<uint64_t, int64_t>> flying;
    int computing = 0;
    uint64_t before = 0;
    for (const Mark &mark : marks) {
      if (computing == 0 && !flying.empty() && flying.begin()->second >= 0)
        costs[size_t(flying.begin()->second)].exposed += double(mark.when - before) * 1e-9;
      before = mark.when;
      if (mark.traffic == kCompute)
        computing += mark.change;
      else if (mark.change > 0)
        flying.insert({mark.begun, mark.traffic});
      else
        flying.erase(flying.find({mark.begun, mark.traffic}));
    }
  }

  const Subject &subject;
  const uint32_t stage;
  std::vector<Mark> marks;
  Costs costs;
};

// Fills in what the stage takes for whose traffic a rank waits longest, or else moves longest.
void price(TrafficGroup &group, const std::vector<Costs> &costs, const report::PlanIndex &index) {
  for (uint32_t stage = 0; stage < costs.size(); ++stage) {
    TrafficGroup sum;
    for (size_t member : group.members)
      if (auto found = costs[stage].find(member); found != costs[stage].end()) {
        sum.calls += found->second.calls;
        sum.bytes += double(found->second.calls * index.traffic[member].bytes);
        sum.moving += found->second.moving;
        sum.waiting += found->second.waiting;
        sum.exposed += found->second.exposed;
      }
    auto weight = [](const TrafficGroup &g) { return std::tuple(g.calls > 0, g.exposed, g.moving, g.calls); };
    if (weight(sum) <= weight(group))
      continue;
    sum.members = std::move(group.members);
    sum.stage = stage;
    group = std::move(sum);
  }
}

// Returns the first four tensors that a call moves, as explain describes them.
OrderedJson tensorsOf(const json &why) {
  OrderedJson list = OrderedJson::array();
  for (const json &tensor : why["tensors"])
    if (list.size() < 4)
      list.push_back({{"name", tensor.value("name", "")}, {"layout", tensor.value("layout", "")}, {"needed", tensor.value("needed", "")}});
  return list;
}

OrderedJson alternativesOf(const json &why) {
  OrderedJson list = OrderedJson::array();
  for (const json &other : why["alternatives"])
    list.push_back({{"name", other.value("name", "")}, {"text", other.value("text", "")}});
  return list;
}

OrderedJson rowOf(const Subject &subject, const TrafficGroup &group, const json &summary) {
  const report::Traffic &first = subject.index.traffic[group.members.front()];
  json why = report::explainTraffic(subject.index, first);
  uint32_t low = first.stage, high = first.stage;
  for (size_t member : group.members) {
    low = std::min(low, subject.index.traffic[member].stage);
    high = std::max(high, subject.index.traffic[member].stage);
  }
  OrderedJson reasons;
  for (const char *key : {"node", "op", "tactic", "rule", "seed", "partition", "moved"})
    reasons[key] = why["why"][key];
  return {{"name", first.name},
          {"kind", first.kind},
          {"axes", summary["axes"]},
          {"phase", summary["phase"]},
          {"pattern", summary["pattern"]},
          {"members", group.members.size()},
          {"stages", {low, high}},
          {"bytes", first.bytes},
          {"ranks", why["members"]["ranks"]},
          {"groups", why["members"]["groups"]},
          {"link", first.isSend ? linkOfMessages(subject, first.axes) : linkOf(subject, first.axes)},
          {"stage", group.stage},
          {"calls", group.calls},
          {"step_bytes", group.bytes},
          {"each_s", group.calls ? group.moving / double(group.calls) : 0},
          {"step_s", group.moving},
          {"wait_s", group.waiting},
          {"exposed_s", group.exposed},
          {"why", std::move(reasons)},
          {"overlap", why["overlap"]["text"]},
          {"tensors", tensorsOf(why)},
          {"alternatives", alternativesOf(why)}};
}

} // namespace

std::vector<json> page::summariesOf(const Subject &subject) {
  json all = report::explainAll(subject.index);
  std::vector<json> list;
  size_t sends = 0, collectives = 0;
  for (const report::Traffic &traffic : subject.index.traffic)
    list.push_back(traffic.isSend ? std::move(all["sends"][sends++]) : std::move(all["collectives"][collectives++]));
  return list;
}

std::vector<TrafficGroup> page::groupTraffic(const Subject &subject, const std::vector<json> &summaries) {
  std::vector<Costs> costs;
  for (uint32_t stage = 0; stage < subject.stages(); ++stage)
    costs.push_back(RankCosts(subject, stage).run());
  std::map<std::tuple<std::string, std::vector<uint32_t>, int, std::string, uint64_t>, TrafficGroup> found;
  for (size_t i = 0; i < summaries.size(); ++i) {
    const report::Traffic &t = subject.index.traffic[i];
    found[{t.kind, t.axes, int(t.phase), summaries[i]["pattern"].get<std::string>(), t.bytes}].members.push_back(i);
  }
  std::vector<TrafficGroup> groups;
  for (auto &[key, group] : found) {
    price(group, costs, subject.index);
    groups.push_back(std::move(group));
  }
  std::stable_sort(groups.begin(), groups.end(), [](const TrafficGroup &x, const TrafficGroup &y) {
    return std::pair(x.exposed, x.moving) > std::pair(y.exposed, y.moving);
  });
  return groups;
}

OrderedJson page::trafficJson(const Subject &subject, const std::vector<TrafficGroup> &groups, const std::vector<json> &summaries) {
  OrderedJson rows = OrderedJson::array();
  for (const TrafficGroup &group : groups)
    rows.push_back(rowOf(subject, group, summaries[group.members.front()]));
  return rows;
}
