#include "lib/page/Document.h"

#include "lib/cost/Memory.h"
#include "lib/page/Events.h"
#include "lib/page/Measured.h"
#include "lib/page/MemoryCurve.h"
#include "lib/page/MeshPicture.h"
#include "lib/page/Words.h"
#include "lib/planfile/MeshAxes.h"
#include "lib/planfile/SharedStates.h"
#include "lib/report/ElementTypes.h"
#include "lib/report/Report.h"
#include "lib/schedules/Exchanges.h"
#include "lib/support/Counted.h"

#include <algorithm>
#include <cmath>

using namespace llmc;
using namespace llmc::page;
using support::OrderedJson;
using support::Result;
using support::text;

namespace {

constexpr double kMostPasses = 100'000; // of a schedule that is drawn

OrderedJson modelJson(const planfile::ProgramT &program) {
  OrderedJson model = {{"name", program.model->name}, {"parameters", program.model->parameters}, {"layers", program.model->layers}};
  if (program.active_parameters)
    model["active_parameters"] = program.active_parameters;
  return model;
}

OrderedJson choicesJson(const planfile::ProgramT &program) {
  constexpr const char *optimizers[] = {"none", "sgd", "adamw"};
  OrderedJson list = OrderedJson::array();
  auto add = [&](const char *name, const std::string &value) {
    if (!value.empty())
      list.push_back({name, value});
  };
  size_t chunks = program.stages.front()->chunks.size();
  add("schedule", program.schedule + (chunks > 1 ? text(" of ", chunks, " chunks a stage") : ""));
  add("batch", text(support::counted(program.micro_batches, "micro-batch"), " of ", support::counted(program.micro_batch, "row"),
                    " of ", support::groupDigits(uint64_t(program.model->sequence)), " tokens, ", support::groupDigits(program.global_batch),
                    " rows a step"));
  for (const auto &[role, type] : report::elementTypesOf(program))
    if (role == "weights" || role == "gradients" || role == "moments")
      add(role.c_str(), type);
  add("optimizer", optimizers[std::min(2, int(program.optimizer))]);
  add("zero", text(planfile::zeroStage(*program.stages.front())));
  add("recompute", program.recompute);
  add("sequence-parallel", program.sequence_parallel);
  add("cp-kind", program.cp_kind);
  add("dropout", program.dropout);
  if (program.moe_budget > 0)
    add("moe-budget", text(program.moe_budget));
  if (program.memory_limit > 0)
    add("memory-limit", bytesText(double(program.memory_limit)));
  return list;
}

// Returns the peak of all ranks together in FLOP/s; 0 where it is not known.
double peakOf(const planfile::ProgramT &program, const cost::Machine &machine) {
  if (machine.cluster.host)
    return program.peak_flops;
  bool isWide = false;
  for (const auto &[role, type] : report::elementTypesOf(program))
    isWide |= role == "weights" && type == "fp32";
  return (isWide ? machine.cluster.peakFp32 : machine.cluster.peak16) * planfile::rankCount(*program.mesh);
}

// Returns the FLOPs of products and attention of a step, of all ranks.
double flopsOf(const planfile::ProgramT &program, const simulate::Forecast &forecast) {
  double sum = 0;
  const OrderedJson json = simulate::forecastJson(forecast);
  for (const OrderedJson &stage : json["flops"])
    sum += stage["products"].get<double>() + stage["attention"].get<double>();
  return sum * planfile::rankCount(*program.mesh) / double(program.stages.size());
}

uint32_t largestStage(const planfile::ProgramT &program) {
  auto most = std::max_element(program.stages.begin(), program.stages.end(),
                               [](const auto &x, const auto &y) { return x->arena_bytes < y->arena_bytes; });
  return uint32_t(most - program.stages.begin());
}

// Returns the bytes that the run may use: of one rank, or of all where they are one process.
double usableBytes(const cost::Cluster &cluster) {
  return cluster.host ? cluster.memoryBytes * cluster.host->cores : cost::usableMemory(cluster);
}

double neededBytes(const Subject &subject) {
  return subject.machine.cluster.host ? subject.forecast.processPeak : double(subject.forecast.arena);
}

OrderedJson clusterJson(const Subject &subject) {
  const cost::Cluster &cluster = subject.machine.cluster;
  OrderedJson json = {{"name", cluster.name}, {"memory_bytes", cluster.memoryBytes}, {"usable_bytes", usableBytes(cluster)},
                      {"per_node", cluster.gpusPerNode}, {"domain", cluster.nvlinkDomain}};
  if (cluster.host)
    json.update({{"workers", subject.forecast.workers}, {"threads", subject.forecast.threads}});
  return json;
}

OrderedJson stepJson(const Subject &subject) {
  const planfile::ProgramT &program = subject.program;
  double step = subject.forecast.timeline.step, tokens = double(program.global_batch) * double(program.model->sequence);
  double peak = peakOf(program, subject.machine), hardware = flopsOf(program, subject.forecast);
  OrderedJson mfu, hfu; // null
  if (peak > 0 && step > 0 && hardware > 0)
    hfu = hardware / step / peak;
  if (peak > 0 && step > 0 && program.model_flops > 0)
    mfu = program.model_flops / step / peak;
  else if (program.recompute == "none")
    mfu = hfu;
  return {{"seconds", step},
          {"tokens", tokens},
          {"tokens_per_s", tokens / step},
          {"tokens_per_s_per_rank", tokens / step / planfile::rankCount(*program.mesh)},
          {"mfu", mfu},
          {"hfu", hfu},
          {"bubble_fraction", subject.forecast.bubble},
          {"peak_bytes", subject.forecast.arena},
          {"peak_stage", largestStage(program)},
          {"fits", neededBytes(subject) <= usableBytes(subject.machine.cluster)},
          {"process_bytes", subject.machine.cluster.host ? OrderedJson(subject.forecast.processPeak) : OrderedJson()}};
}

OrderedJson stagesJson(const Subject &subject) {
  OrderedJson list = OrderedJson::array();
  double step = subject.forecast.timeline.step;
  for (uint32_t stage = 0; stage < subject.stages(); ++stage) {
    const simulate::RankTime &rank = *subject.ranks[stage];
    double sum = rank.compute + rank.idle;
    for (const auto &[axes, seconds] : rank.exposed)
      sum += seconds;
    list.push_back({{"stage", stage},
                    {"rank", rank.rank},
                    {"layers", report::layersText(*subject.program.stages[stage])},
                    {"compute_s", rank.compute},
                    {"exposed_s", rank.exposed},
                    {"idle_s", rank.idle},
                    {"other_s", std::max(0.0, step - sum)}});
  }
  return list;
}

std::string timeText(const Subject &subject) {
  double step = subject.forecast.timeline.step;
  auto busiest = std::max_element(subject.ranks.begin(), subject.ranks.end(), [](auto *x, auto *y) { return x->compute < y->compute; });
  const simulate::RankTime &rank = **busiest;
  std::string out = text("A step takes ", secondsText(step), ". Stage ", rank.stage, ", which computes longest, computes for ",
                         percentText(rank.compute, step), " of it");
  std::vector<std::pair<double, std::string>> parts;
  for (const auto &[axes, seconds] : rank.exposed)
    parts.emplace_back(seconds, axes);
  std::sort(parts.rbegin(), parts.rend());
  if (!parts.empty() && parts.front().first > 0)
    out += text("; for ", percentText(parts.front().first, step), " it waits for data on its way over ", parts.front().second,
                ", with nothing else to do");
  if (rank.idle > 0)
    out += text("; for ", percentText(rank.idle, step), " it idles until other ", subject.forecast.workers ? "ranks" : "stages",
                " have computed what it needs");
  return out + ".";
}

std::string memoryText(const Subject &subject) {
  const cost::Cluster &cluster = subject.machine.cluster;
  double needed = neededBytes(subject), usable = usableBytes(cluster);
  std::string out = cluster.host ? text("All ranks together need ", bytesText(needed))
                                 : text("Stage ", largestStage(subject.program), " needs most, ", bytesText(needed), " a rank");
  return out + text("; ", cluster.name, " has ", bytesText(usable), " for it",
                    needed <= usable ? text(": it fits, with ", percentText(usable - needed, usable), " to spare.")
                                     : text(": it does not fit, ", bytesText(needed - usable), " too much."));
}

std::string trafficText(const OrderedJson &row, double step) {
  std::string why = row["why"]["partition"].get<std::string>(), axes;
  for (const auto &axis : row["axes"])
    axes += (axes.empty() ? "" : " ") + axis.get<std::string>();
  std::string out = text(row["kind"].get<std::string>(), " over ", axes, " (", row["phase"].get<std::string>(), ", ",
                         row["pattern"].get<std::string>(), "): ", row["calls"].get<uint64_t>(), " calls of ",
                         bytesText(row["bytes"].get<double>()), " on a rank of stage ", row["stage"].get<uint32_t>(), " move for ",
                         secondsText(row["step_s"].get<double>()), " a step, of which nothing hides ",
                         secondsText(row["exposed_s"].get<double>()), " (", percentText(row["exposed_s"].get<double>(), step), " of the step)");
  return out + (why.empty() ? "." : text(". Why it is there: ", why, "."));
}

OrderedJson findingsJson(const Subject &subject, const OrderedJson &traffic) {
  OrderedJson list = {{{"title", "Where the time goes"}, {"text", timeText(subject)}},
                      {{"title", "Does it fit"}, {"text", memoryText(subject)}}};
  if (!traffic.empty())
    list.push_back({{"title", "What communication costs most"},
                    {"text", trafficText(traffic.front(), subject.forecast.timeline.step)}});
  return list;
}

// Tells how near the forecast is to what was measured; the median of metrics has more steps than a trace.
OrderedJson nearnessJson(const OrderedJson &run, double step) {
  bool hasMetrics = !run["metrics"].is_null();
  double measured = hasMetrics ? run["metrics"]["median_s"].get<double>() : run["trace"]["seconds"].get<double>();
  return {{"title", "How near the forecast is"},
          {"text", text("A measured step took ", secondsText(measured), ", the median of ",
                        hasMetrics ? run["metrics"]["steps"].get<size_t>() : run["trace"]["steps"].size(), "; the forecast says ",
                        secondsText(step), ", ", percentText(std::abs(step - measured), measured),
                        step < measured ? " less." : " more.")}};
}

// Returns the rows of the schedule of what was chosen, in columns; null where it is too long to be drawn, or not told.
OrderedJson scheduleJson(const nlohmann::json &prediction) {
  const nlohmann::json chosen = prediction.value("chosen", nlohmann::json::object()), mesh = chosen.value("mesh", nlohmann::json::object());
  int64_t stages = mesh.value(std::string(planfile::nameOf(planfile::AxisRole::Stages)), int64_t(0)), chunks = chosen.value("virtual_stages", int64_t(1));
  int64_t microBatches = chosen.value("micro_batches", int64_t(0));
  std::string schedule = chosen.value("schedule", "");
  if (stages < 1 || chunks < 1 || microBatches < 1 || double(stages) * double(chunks) * double(microBatches) > kMostPasses ||
      (schedule == "interleaved" && microBatches % stages != 0))
    return nullptr;
  std::vector<std::vector<Step>> steps;
  for (int64_t stage = 0; stage < stages; ++stage)
    steps.push_back(stepsOf(schedule, microBatches, chunks, stage, stages));
  auto columns = columnsOf(steps, chunks);
  if (!columns || steps.front().empty())
    return nullptr;
  OrderedJson all = OrderedJson::array();
  for (size_t stage = 0; stage < steps.size(); ++stage) {
    OrderedJson rows = OrderedJson::array();
    for (size_t i = 0; i < steps[stage].size(); ++i) {
      const Step &step = steps[stage][i];
      int64_t column = (*columns)[stage][i];
      rows.insert(rows.end(), {std::string(1, "FBW"[int(step.kind)]), step.chunk, step.microBatch, column, column + 1});
    }
    all.push_back(std::move(rows));
  }
  return all;
}

} // namespace

Result<OrderedJson> page::documentOf(const planfile::ProgramT &program, const cost::Machine &machine, const MeasuredFiles &measured) {
  auto forecast = simulate::forecast(program, machine);
  if (!forecast)
    return forecast.takeError();
  Subject subject(program, machine, *forecast);
  std::vector<nlohmann::json> summaries = summariesOf(subject);
  std::vector<TrafficGroup> groups = groupTraffic(subject, summaries);
  OrderedJson traffic = trafficJson(subject, groups, summaries), timeline = timelineJson(subject), run;
  if (!measured.trace.empty() || !measured.metrics.empty())
    run = {{"trace", nullptr}, {"metrics", nullptr}};
  if (!measured.trace.empty()) {
    auto trace = readTrace(subject, groups, timeline["unit_s"].get<double>(), measured.trace);
    if (!trace)
      return trace.takeError();
    run["trace"] = std::move(*trace);
  }
  if (!measured.metrics.empty()) {
    auto metrics = readMetrics(measured.metrics);
    if (!metrics)
      return metrics.takeError();
    run["metrics"] = std::move(*metrics);
  }
  OrderedJson findings = findingsJson(subject, traffic);
  if (!run.is_null())
    findings.push_back(nearnessJson(run, forecast->timeline.step));
  return OrderedJson{{"page_version", kVersion},
                     {"kind", "program"},
                     {"compiler", program.compiler},
                     {"model", modelJson(program)},
                     {"mesh", meshJson(subject)},
                     {"choices", choicesJson(program)},
                     {"cluster", clusterJson(subject)},
                     {"step", stepJson(subject)},
                     {"findings", std::move(findings)},
                     {"stages", stagesJson(subject)},
                     {"timeline", std::move(timeline)},
                     {"memory", memoryJson(subject)},
                     {"traffic", std::move(traffic)},
                     {"measured", std::move(run)}};
}

OrderedJson page::documentOf(const nlohmann::json &prediction) {
  return {{"page_version", kVersion}, {"kind", "prediction"}, {"schedule", scheduleJson(prediction)}, {"prediction", prediction}};
}
