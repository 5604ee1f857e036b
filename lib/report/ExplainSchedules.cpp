// Says what other schedules of the pipeline would change: empty columns, messages, memory.
#include "lib/report/Explain.h"
#include "lib/report/Memory.h"
#include "lib/report/Timeline.h"
#include "lib/schedules/Exchanges.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <sstream>

using nlohmann::json;

namespace llmc::report {
using namespace planfile;
using support::text;
namespace {

// Holds what a schedule takes, counted from the order of its steps.
struct Counts {
  int64_t cells = 0, empty = 0, messages = 0; // messages of one rank of each stage, a step
  std::vector<int64_t> inFlight;              // (chunk, micro-batch) pairs at once, by stage
  std::vector<int64_t> slots;                 // of all chunks, by stage
};

Counts countSteps(const std::vector<std::vector<Step>> &stages, int64_t chunks) {
  Counts counts;
  int64_t p = int64_t(stages.size()), last = p * chunks - 1, columns = 0, busy = 0;
  auto times = columnsOf(stages, chunks);
  for (int64_t s = 0; s < p; ++s) {
    std::map<std::pair<int64_t, int64_t>, size_t> ends;
    for (size_t i = 0; i < stages[s].size(); ++i)
      ends[{stages[s][i].chunk, stages[s][i].microBatch}] = i;
    int64_t alive = 0, most = 0;
    for (size_t i = 0; i < stages[s].size(); ++i) {
      const Step &step = stages[s][i];
      int64_t k = step.chunk * p + s;
      counts.messages += (step.kind == StepKind::F && k < last) || (step.kind == StepKind::B && k > 0);
      most = std::max(most, alive += step.kind == StepKind::F);
      alive -= ends[{step.chunk, step.microBatch}] == i;
    }
    counts.inFlight.push_back(most);
    counts.slots.push_back(0);
    for (int64_t chunk = 0; chunk < chunks; ++chunk)
      counts.slots.back() += assignSlots(stages[s], chunk, {StepKind::F, StepKind::B, StepKind::W}).count;
    columns = std::max(columns, times->at(s).back() + 1);
    busy += int64_t(stages[s].size());
  }
  counts.cells = columns * p;
  counts.empty = counts.cells - busy;
  return counts;
}

Counts countOf(const std::string &schedule, int64_t m, int64_t chunks, int64_t p) {
  std::vector<std::vector<Step>> stages;
  for (int64_t s = 0; s < p; ++s)
    stages.push_back(stepsOf(schedule, m, chunks, s, p));
  return countSteps(stages, chunks);
}

std::string percent(int64_t part, int64_t all) {
  return all ? text(std::round(1000.0 * double(part) / double(all)) / 10, " %") : "none";
}

// Describes this plan's schedule, and others that it could have.
class Schedules {
public:
  explicit Schedules(const PlanIndex &book) : program(book.program) {
    Timeline timeline = timelineOf(program);
    now.cells = timeline.cells;
    now.empty = timeline.empty;
    for (const Traffic &t : book.traffic)
      now.messages += t.isSend ? int64_t(t.perStep) : 0;
    for (uint32_t s = 0; s < program.stages.size(); ++s) {
      now.inFlight.push_back(inFlight(program, s));
      // Pools behind the main ones hold parts of what the slots of these would hold: where there are
      // some, a micro-batch takes at most what is said of it.
      uint64_t slots = 0, chunks = program.stages[s]->chunks.size();
      for (size_t chunk = 0; chunk < chunks; ++chunk)
        slots += program.stages[s]->pools[chunk]->slots;
      isBound |= program.stages[s]->pools.size() > chunks;
      for (const auto &[kind, bytes] : memoryOf(program, s))
        if (kind == "activations") {
          activations.push_back(bytes);
          ofSlot.push_back(double(bytes) / double(std::max<uint64_t>(slots, 1)) * double(chunks));
        }
    }
  }

  json answer() const {
    json j = describe(program.mode == Mode::Infer ? "none" : program.schedule, chunks(), now, activations);
    j["alternatives"] = json::array();
    if (program.stages.size() < 2 || program.mode != Mode::Train)
      return j;
    int64_t p = int64_t(program.stages.size()), m = program.micro_batches;
    for (std::string_view name : kSchedules) {
      if (name == "interleaved") // of one chunk more than there are
        j["alternatives"].push_back(alternativeOf("interleaved", chunks() + 1, (m + p - 1) / p * p));
      else if (name != program.schedule)
        j["alternatives"].push_back(alternativeOf(std::string(name), 1, m));
    }
    return j;
  }

private:
  int64_t chunks() const { return int64_t(program.stages.front()->chunks.size()); }

  static json describe(const std::string &schedule, int64_t chunks, const Counts &counts,
                       const std::vector<uint64_t> &activations) {
    return {{"schedule", schedule},
            {"virtual_stages", chunks},
            {"bubble", {{"cells", counts.cells}, {"empty", counts.empty}}},
            {"messages", counts.messages},
            {"in_flight", counts.inFlight},
            {"activations", activations}};
  }

  // Describes another schedule, of `m` micro-batches.
  json alternativeOf(const std::string &schedule, int64_t v, int64_t m) const {
    int64_t p = int64_t(program.stages.size());
    Counts counts = countOf(schedule, m, v, p);
    std::vector<uint64_t> bytes;
    for (int64_t s = 0; s < p; ++s)
      bytes.push_back(uint64_t(ofSlot[s] / double(v) * double(counts.slots[s])));
    json j = describe(schedule, v, counts, bytes);
    int64_t layers = program.model->layers;
    std::string needs;
    if (m != int64_t(program.micro_batches))
      needs += text("; it needs a multiple of ", p, " micro-batches: counted with ", m);
    if (p * v > layers + 2)
      needs += text("; it needs ", p * v - 2, " layers");
    j["flags"] = v > 1 ? text("--schedule ", schedule, " --virtual-stages ", v) : "--schedule " + schedule;
    j["possible"] = needs.empty();
    uint64_t most = *std::max_element(bytes.begin(), bytes.end());
    uint64_t mostNow = *std::max_element(activations.begin(), activations.end());
    bool splits = schedule == "zero-bubble";
    std::string kept = !splits ? ""
                       : program.recompute == "none" || program.recompute.empty()
                           ? ", and besides what backward keeps for gradients of weights"
                           : ", and besides what backward keeps for gradients of weights, all that it computes again too";
    j["text"] = text(percent(counts.empty, counts.cells), " of the cells empty (now ", percent(now.empty, now.cells),
                     "), ", groupDigits(uint64_t(counts.messages)), " messages (now ",
                     groupDigits(uint64_t(now.messages)), "), ", splits ? "at least " : isBound ? "at most " : "about ", groupDigits(most),
                     " bytes of activations on the stage with most", kept, " (now ", groupDigits(mostNow), ")", needs);
    return j;
  }

  const ProgramT &program;
  Counts now;
  std::vector<uint64_t> activations; // bytes, by stage
  std::vector<double> ofSlot;        // bytes that a micro-batch keeps in all chunks, by stage
  bool isBound = false;              // these are more than it keeps
};

} // namespace

json explainSchedule(const PlanIndex &book) {
  json answer = Schedules(book).answer();
  answer["what"] = "schedule";
  answer["name"] = "schedule";
  answer["micro_batches"] = book.program.micro_batches;
  return answer;
}

std::string priceText(const json &other) {
  if (double saves = other.value("saves_s", 0.0); saves != 0)
    return (saves > 0 ? ": saves " : ": costs ") + secondsText(saves > 0 ? saves : -saves) + " of a step";
  if (other.contains("step_s"))
    return ": " + secondsText(other["time_s"].get<double>()) + " a call, " + secondsText(other["step_s"].get<double>()) + " a step";
  return "";
}

std::string scheduleText(const json &answer) {
  std::ostringstream out;
  auto str = [](const json &j, const char *key) { return j.at(key).get<std::string>(); };
  auto num = [](const json &j, const char *key) { return j.at(key).get<uint64_t>(); };
  auto numbers = [](const json &list) {
    std::string text;
    for (const json &one : list)
      text += (text.empty() ? "" : "; ") + groupDigits(one.get<uint64_t>());
    return text;
  };
  const json &bubble = answer["bubble"];
  if (str(answer, "schedule") == "none")
    return "schedule    none: an inference runs each stage once, for all rows\n";
  out << "schedule    " << str(answer, "schedule");
  if (num(answer, "virtual_stages") > 1)
    out << ", " << num(answer, "virtual_stages") << " chunks of layers a stage";
  out << ", " << countOf(answer["micro_batches"], "micro-batch") << "\n"
      << "empty       " << num(bubble, "empty") << " of " << num(bubble, "cells")
      << " cells (stages x columns) before the update, if all take as long\n"
      << "messages    " << groupDigits(num(answer, "messages")) << " a step, of one rank of each stage\n"
      << "in flight   " << numbers(answer["in_flight"]) << " micro-batches of a chunk at once, by stage\n"
      << "activations " << numbers(answer["activations"]) << " bytes of a rank, by stage\n";
  if (answer["alternatives"].empty())
    out << "instead     nothing: the order of micro-batches matters to several stages that train\n";
  for (const json &other : answer["alternatives"])
    out << "instead     " << str(other, "flags") << ": " << str(other, "text") << priceText(other) << "\n";
  return out.str();
}

} // namespace llmc::report
