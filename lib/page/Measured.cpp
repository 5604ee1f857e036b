#include "lib/page/Measured.h"
#include "lib/report/Timeline.h"

#include "lib/support/File.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

using namespace llmc;
using namespace llmc::page;
using planfile::Body;
using support::error;
using support::Json;
using support::OrderedJson;
using support::Result;

namespace {

constexpr uint64_t kMostBytes = uint64_t(1) << 28; // of a file that is read whole: more than a program traces
constexpr size_t kMostSteps = 1000;                // that are listed

// Returns the number of a key; nullopt if there is none, or none that a count or a time can be.
std::optional<double> numberAt(const Json &object, const char *key) {
  if (!object.is_object())
    return std::nullopt;
  auto found = object.find(key);
  if (found == object.end() || !found->is_number())
    return std::nullopt;
  double value = found->get<double>();
  return std::isfinite(value) && std::abs(value) < 1e15 ? std::optional(value) : std::nullopt;
}

std::string textAt(const Json &object, const char *key) {
  auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

// Holds a bar of a trace, in microseconds.
struct Bar {
  uint32_t rank = 0, stage = 0;
  int64_t step = 0;
  double begin = 0, end = 0;
  std::string category;
  uint32_t stream = 0;
  int64_t entry = -1, place = -1;
};

Result<std::string> readText(const std::string &path, const char *what) {
  auto file = support::ReadableFile::open(path);
  if (!file)
    return file.takeError();
  if (file->size() > kMostBytes)
    return error(path, ": has ", file->size(), " bytes, and ", what, " of up to ", kMostBytes,
                 " is read; trace fewer steps, or fewer lines");
  std::string bytes(file->size(), '\0');
  if (auto status = file->read(0, bytes.data(), bytes.size()); !status)
    return status.takeError();
  return bytes;
}

// Returns the bar of an event; nullopt for an event of another kind, or of no rank of this mesh.
std::optional<Bar> barOf(const Subject &subject, const Json &event) {
  if (!event.is_object() || textAt(event, "ph") != "X" || !event.contains("args"))
    return std::nullopt;
  const Json &args = event["args"];
  auto rank = numberAt(event, "pid"), begin = numberAt(event, "ts"), length = numberAt(event, "dur"), step = numberAt(args, "step");
  if (!rank || !begin || !length || !step || *rank < 0 || *rank >= planfile::rankCount(*subject.program.mesh) || *length < 0)
    return std::nullopt;
  Bar bar;
  bar.rank = uint32_t(*rank);
  bar.stage = planfile::stageOf(subject.program, bar.rank);
  bar.step = int64_t(*step);
  bar.begin = *begin;
  bar.end = *begin + *length;
  bar.category = textAt(event, "cat");
  bar.stream = uint32_t(std::clamp(numberAt(event, "tid").value_or(0), 0.0, 1e6));
  bar.entry = int64_t(numberAt(args, "entry").value_or(-1));
  bar.place = int64_t(numberAt(args, "instruction").value_or(-1));
  return bar;
}

// Splits the time of a rank by what its instructions are, waiting for others included.
struct Split {
  double compute = 0, communication = 0, wait = 0; // seconds

  void add(std::string_view category, uint32_t stream, double seconds) {
    if (category == "launch" || category == "matmul" || category == "copy" || category == "fill" || category == "feed")
      compute += seconds;
    else if (category == "collective" || category == "send" || category == "recv")
      communication += seconds;
    else if (category == "wait" && stream == 0)
      wait += seconds;
  }
  OrderedJson json() const { return {{"compute_s", compute}, {"communication_s", communication}, {"wait_s", wait}}; }
};

class TraceReader {
public:
  TraceReader(const Subject &subject, const std::vector<TrafficGroup> &groups, double unit)
      : subject(subject), groups(groups), unit(unit), ranks(subject.stages()) {
    groupOf.assign(subject.index.traffic.size(), 0);
    for (size_t g = 0; g < groups.size(); ++g)
      for (size_t member : groups[g].members)
        groupOf[member] = g;
  }

  Result<OrderedJson> read(const std::string &path) {
    auto bytes = readText(path, "a trace");
    if (!bytes)
      return bytes.takeError();
    auto json = support::parseJson(*bytes, path);
    if (!json)
      return json.takeError();
    bytes->clear();
    bytes->shrink_to_fit();
    const Json *events = &*json;
    if (json->is_object())
      events = json->contains("traceEvents") ? &(*json)["traceEvents"] : nullptr;
    if (!events || !events->is_array())
      return error(path, ": is JSON without a list of traceEvents; --measured takes the file that OUT --trace FILE wrote");
    for (const Json &event : *events)
      if (std::optional<Bar> bar = barOf(subject, event))
        bars.push_back(std::move(*bar));
    chooseStep();
    if (times.empty())
      return error(path, ": has no event of a rank and step of this program; --measured takes the file that OUT --trace FILE wrote");
    return made(path);
  }

private:
  void chooseStep() {
    std::map<int64_t, Span> spans;
    for (const Bar &bar : bars) {
      if (bar.category == "schedule")
        continue;
      Span &span = spans[bar.step];
      span.add(bar.begin, bar.end);
    }
    for (const auto &[number, span] : spans)
      times.emplace_back((span.end - span.begin) * 1e-6, number);
    std::sort(times.begin(), times.end());
    if (times.empty())
      return;
    step = times[times.size() / 2].second;
    start = spans[step].begin;
    for (const Bar &bar : bars)
      if (bar.step == step) {
        std::optional<uint32_t> &rank = ranks[bar.stage];
        uint32_t wanted = subject.ranks[bar.stage]->rank;
        rank = bar.rank == wanted || rank == wanted ? wanted : std::min(rank.value_or(bar.rank), bar.rank);
      }
  }

  Result<OrderedJson> made(const std::string &path) {
    std::vector<Split> measured(subject.stages());
    std::vector<std::pair<uint64_t, double>> calls(groups.size()); // of the stage of a group
    std::vector<std::map<int64_t, Span>> spans(subject.stages());
    size_t known = 0;
    for (const Bar &bar : bars) {
      if (bar.step != step || bar.rank != ranks[bar.stage] || bar.category == "schedule")
        continue;
      measured[bar.stage].add(bar.category, bar.stream, (bar.end - bar.begin) * 1e-6);
      std::optional<uint32_t> op = opOf(bar);
      known += op.has_value();
      if (op && bar.stream == 0 && bar.category != "wait" && bar.category != "record")
        spans[bar.stage][bar.entry].add(bar.begin, bar.end);
      int64_t traffic = op ? subject.trafficOf(bar.stage, *op) : -1;
      if (traffic >= 0 && (bar.category != "recv" || subject.index.traffic[size_t(traffic)].isSend) && groups[groupOf[size_t(traffic)]].stage == bar.stage) {
        auto &[count, seconds] = calls[groupOf[size_t(traffic)]];
        ++count;
        seconds += (bar.end - bar.begin) * 1e-6;
      }
    }
    if (known == 0)
      return error(path, ": none of its events is of an instruction of this program; was it written by another one?");
    OrderedJson steps = OrderedJson::array(), entries = OrderedJson::array();
    for (uint32_t stage = 0; stage < subject.stages(); ++stage)
      entries.push_back(rowsJson(stage, spans[stage]));
    for (auto [seconds, number] : times)
      steps.push_back({{"step", number}, {"seconds", seconds}});
    return OrderedJson{{"steps", std::move(steps)},
                       {"step", step},
                       {"seconds", times[times.size() / 2].first},
                       {"stages", stagesJson(measured)},
                       {"traffic", trafficJson(calls)},
                       {"entries", std::move(entries)}};
  }

  // Returns the op of a bar, if the program has an instruction like it there.
  std::optional<uint32_t> opOf(const Bar &bar) const {
    const runtime::StageProgram &stage = *subject.forecast.stages[bar.stage];
    if (bar.entry < 0 || size_t(bar.entry) >= stage.table.size() || bar.place < 0)
      return std::nullopt;
    uint32_t procedure = stage.table[size_t(bar.entry)].procedure;
    if (size_t(bar.place) >= stage.plan->procedures[procedure]->instructions.size())
      return std::nullopt;
    uint32_t op = subject.opAt(bar.stage, procedure, uint32_t(bar.place));
    return bar.category == toString(stage.ops[op].kind) ? std::optional(op) : std::nullopt;
  }

  // Lists the rows of the schedule of a stage, as Events.h does, by when its first stream ran what each computes.
  OrderedJson rowsJson(uint32_t stage, const std::map<int64_t, Span> &spans) const {
    OrderedJson rows = OrderedJson::array();
    const planfile::StageT &plan = *subject.program.stages[stage];
    for (const auto &[row, span] : spans) {
      const planfile::EntryT &entry = *plan.table[size_t(row)];
      char letter = report::letterOf(plan.procedures[entry.procedure]->kind);
      rows.insert(rows.end(), {letter ? std::string(1, letter) : "", plan.procedures[entry.procedure]->chunk, entry.micro_batch,
                               units(span.begin), units(span.end)});
    }
    return rows;
  }
  int64_t units(double microseconds) const { return int64_t((microseconds - start) * 1e-6 / unit + 0.5); }

  OrderedJson stagesJson(const std::vector<Split> &measured) const {
    std::vector<Split> predicted(subject.stages());
    for (const auto &event : subject.forecast.timeline.events) {
      uint32_t stage = planfile::stageOf(subject.program, event.rank);
      const runtime::Op &op = subject.forecast.stages[stage]->ops[event.op];
      if (subject.ranks[stage]->rank == event.rank)
        predicted[stage].add(toString(op.kind), op.stream, double(event.end - event.begin) * 1e-9);
    }
    OrderedJson list = OrderedJson::array();
    for (uint32_t stage = 0; stage < subject.stages(); ++stage)
      if (ranks[stage])
        list.push_back({{"stage", stage}, {"rank", *ranks[stage]}, {"measured", measured[stage].json()},
                        {"predicted", predicted[stage].json()}});
    return list;
  }

  OrderedJson trafficJson(const std::vector<std::pair<uint64_t, double>> &calls) const {
    OrderedJson list = OrderedJson::array();
    for (size_t g = 0; g < groups.size(); ++g)
      if (calls[g].first > 0 && groups[g].calls > 0)
        list.push_back({{"group", g},
                        {"calls", calls[g].first},
                        {"measured_s", calls[g].second / double(calls[g].first)},
                        {"predicted_s", (groups[g].moving + groups[g].waiting) / double(groups[g].calls)}});
    return list;
  }

  const Subject &subject;
  const std::vector<TrafficGroup> &groups;
  const double unit;
  std::vector<size_t> groupOf; // by index of PlanIndex::traffic
  std::vector<Bar> bars;
  std::vector<std::pair<double, int64_t>> times; // seconds, step; sorted
  int64_t step = 0;
  double start = 0;
  std::vector<std::optional<uint32_t>> ranks; // by stage: the one that is shown
};

} // namespace

Result<OrderedJson> page::readTrace(const Subject &subject, const std::vector<TrafficGroup> &groups, double unit,
                                    const std::string &path) {
  return TraceReader(subject, groups, unit).read(path);
}

Result<OrderedJson> page::readMetrics(const std::string &path) {
  auto bytes = readText(path, "metrics");
  if (!bytes)
    return bytes.takeError();
  std::vector<double> numbers, times;
  size_t line = 0;
  for (size_t at = 0; at < bytes->size(); ++line) {
    size_t end = std::min(bytes->find('\n', at), bytes->size());
    std::string_view one = std::string_view(*bytes).substr(at, end - at);
    bool isLast = end >= bytes->size(); // a run that was killed may leave half a line
    at = end + 1;
    if (one.find_first_not_of(" \t\r") == std::string_view::npos)
      continue;
    auto json = support::parseJson(one, support::text(path, ", line ", line + 1));
    if (!json && isLast)
      break;
    if (!json)
      return error(json.message(), "; --metrics takes the file that OUT --metrics FILE wrote");
    auto step = numberAt(*json, "step"), seconds = numberAt(*json, "step_time_s");
    if (step && seconds && *step > 0 && *seconds > 0) {
      numbers.push_back(*step);
      times.push_back(*seconds);
    }
  }
  if (times.empty())
    return error(path, ": no line has a step and its step_time_s; --metrics takes the file that OUT --metrics FILE wrote");
  std::vector<double> sorted(times.begin() + (times.size() > 1 ? 1 : 0), times.end());
  std::sort(sorted.begin(), sorted.end());
  size_t every = (times.size() + kMostSteps - 1) / kMostSteps;
  OrderedJson steps = OrderedJson::array(), seconds = OrderedJson::array();
  for (size_t i = 0; i < times.size(); i += every) {
    steps.push_back(numbers[i]);
    seconds.push_back(times[i]);
  }
  return OrderedJson{{"steps", times.size()},
                     {"median_s", sorted[sorted.size() / 2]},
                     {"fastest_s", sorted.front()},
                     {"slowest_s", sorted.back()},
                     {"every", every},
                     {"step", std::move(steps)},
                     {"step_time_s", std::move(seconds)}};
}
