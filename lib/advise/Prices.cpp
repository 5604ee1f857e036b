#include "lib/advise/Prices.h"

#include "lib/cost/Collectives.h"
#include "lib/planfile/Trace.h"

#include <algorithm>
#include <map>
#include <tuple>

using namespace llmc;
using namespace llmc::advise;
using nlohmann::json;
using planfile::Body;
using planfile::InstructionT;
using simulate::Forecast;
using simulate::RankTime;

namespace {

// Identifies a message: stages of its source and destination, channel, number in it.
using MessageKey = std::tuple<uint32_t, uint32_t, uint32_t, uint64_t>;

// Adds up the events of the ranks that stand for their stages.
class Sum {
public:
  Sum(const report::PlanIndex &book, const Forecast &forecast) : book_(book), forecast_(forecast), prices_(book.traffic.size()) {
    for (size_t i = 0; i < book.traffic.size(); ++i)
      for (const report::Site &site : book.traffic[i].sites)
        entryOf_[&report::instructionAt(book.program, site)] = i;
    for (const RankTime *rank : busiestRanks(forecast))
      if (rank)
        stageOf_[rank->rank] = rank->stage;
  }

  std::vector<Price> run() {
    forEachEvent([&](size_t event, uint32_t stage, const InstructionT &instruction) {
      auto entry = entryOf_.find(&instruction);
      if (entry == entryOf_.end())
        return;
      const runtime::TraceEvent &e = forecast_.timeline.events[event];
      Price &price = prices_[entry->second];
      price.step += double(e.end - forecast_.timeline.moved[event]) * 1e-9;
      price.exposed += forecast_.timeline.exposed[event];
      ++calls_[entry->second];
      if (auto message = planfile::messageOf(instruction))
        messages_[keyOf(stage, *message, e.number, /*isSend=*/true)] = entry->second;
    });
    // A receiver waits for what its peer sends.
    forEachEvent([&](size_t event, uint32_t stage, const InstructionT &instruction) {
      if (!instruction.body.AsRecv())
        return;
      uint64_t number = forecast_.timeline.events[event].number;
      if (auto at = messages_.find(keyOf(stage, *planfile::messageOf(instruction), number, false)); at != messages_.end())
        received_[at->second] += forecast_.timeline.exposed[event];
    });
    // The two ends of a message between stages wait at the same time, those of one around a ring one after the other.
    for (auto [entry, seconds] : received_) {
      double &exposed = prices_[entry].exposed;
      exposed = book_.traffic[entry].isSend ? std::max(exposed, seconds) : exposed + seconds;
    }
    for (auto [entry, count] : calls_)
      prices_[entry].call = prices_[entry].step / double(count);
    return std::move(prices_);
  }

private:
  // Calls visit(event, stage, instruction) for the collectives and messages of these ranks.
  template <class Visit> void forEachEvent(Visit visit) {
    const auto &events = forecast_.timeline.events;
    for (size_t i = 0; i < events.size(); ++i) {
      auto stage = stageOf_.find(events[i].rank);
      if (stage == stageOf_.end())
        continue;
      const auto &program = *forecast_.stages[stage->second];
      Body kind = program.ops[events[i].op].kind;
      if (kind == Body::Collective || kind == Body::Send || kind == Body::Recv)
        visit(i, stage->second, program.instructionOf(events[i].op));
    }
  }

  MessageKey keyOf(uint32_t stage, const planfile::Message &message, uint64_t number, bool isSend) {
    auto peer = uint32_t(planfile::peerStage(book_.program, stage, message));
    return {isSend ? stage : peer, isSend ? peer : stage, message.channel, number};
  }

  const report::PlanIndex &book_;
  const Forecast &forecast_;
  std::vector<Price> prices_;
  std::map<const InstructionT *, size_t> entryOf_;
  std::map<uint32_t, uint32_t> stageOf_; // of the ranks that stand for their stages
  std::map<MessageKey, size_t> messages_;
  std::map<size_t, uint64_t> calls_;
  std::map<size_t, double> received_; // seconds that receivers wait
};

} // namespace

std::vector<const RankTime *> advise::busiestRanks(const Forecast &forecast) {
  std::vector<const RankTime *> best(forecast.stages.size());
  for (const RankTime &rank : forecast.timeline.ranks)
    if (!best[rank.stage] || rank.compute > best[rank.stage]->compute)
      best[rank.stage] = &rank;
  return best;
}

std::vector<Price> advise::pricesOf(const report::PlanIndex &book, const Forecast &forecast) {
  return Sum(book, forecast).run();
}

// Prices what could stand in place of a collective or message and is not built, by the curves of accelerators.
static void priceOthers(json &answer, const report::PlanIndex &book, const report::Traffic &t, const Price &price,
                        const cost::Machine &machine) {
  double pace = machine.cluster.host ? 0 : machine.pace(double(planfile::rankCount(*book.program.mesh)));
  uint32_t fastest = *std::max_element(t.axes.begin(), t.axes.end());
  int64_t stride = 1;
  for (uint32_t axis = fastest + 1; axis < book.program.mesh->axes.size(); ++axis)
    stride *= int64_t(book.axisSize(axis));
  cost::Group group{int64_t(book.sizeOf(book.firstNamed(t.axes))), stride};
  for (json &other : answer["alternatives"]) {
    std::string name = other.value("name", "");
    double call = 0, calls = double(t.perStep), bytes = other.value("bytes", 0.0);
    if (name == "gather before")
      call = pace * cost::timeOf(machine, cost::Collective{cost::Transfer::AllGather, cost::Role::Tensor, group, bytes});
    else if (name == "send parts")
      call = pace * cost::messageTime(machine, stride, bytes);
    else if (name == "in each micro-batch") {
      call = price.call;
      calls *= double(book.program.micro_batches);
    }
    if (call > 0)
      other.update({{"time_s", call}, {"step_s", call * calls}});
  }
}

void advise::addPrices(json &answer, const report::PlanIndex &book, const Forecast &forecast, const cost::Machine &machine) {
  std::vector<Price> prices = pricesOf(book, forecast);
  double step = forecast.timeline.step;
  std::map<std::string, size_t> entries;
  for (size_t i = 0; i < book.traffic.size(); ++i)
    entries[book.traffic[i].name] = i;
  auto add = [&](json &entry) {
    auto at = entries.find(entry.value("name", ""));
    if (at == entries.end())
      return;
    const Price &price = prices[at->second];
    entry.update({{"time_s", price.call}, {"step_s", price.step}, {"exposed_s", price.exposed},
                  {"share", step > 0 ? price.exposed / step : 0}});
  };
  for (const char *key : {"collectives", "sends"})
    if (answer.contains(key))
      for (json &entry : answer[key])
        add(entry);
  if (answer["what"] == "collective") {
    add(answer);
    size_t entry = entries.at(answer["name"]);
    priceOthers(answer, book, book.traffic[entry], prices[entry], machine);
  }
  answer["prediction"] = {{"cluster", machine.cluster.name}, {"simulated_step_s", step}};
}
