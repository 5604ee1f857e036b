#include "lib/advise/Comparison.h"

#include "lib/advise/Prices.h"
#include "lib/planfile/AxisNames.h"
#include "lib/planfile/Precision.h"
#include "lib/planfile/SharedStates.h"
#include "lib/report/Report.h"

#include <algorithm>
#include <cmath>

using namespace llmc;
using namespace llmc::advise;
using nlohmann::json;
using planfile::ProgramT;
using report::Traffic;

namespace {

// Collects what people call a plan by, in the order in which they ask: names and values.
using Facts = std::vector<std::pair<std::string, json>>;

const char *nameOf(planfile::OptimizerKind kind) {
  return kind == planfile::OptimizerKind::AdamW ? "adamw" : kind == planfile::OptimizerKind::Sgd ? "sgd" : "none";
}

void addChoices(Facts &facts, const ProgramT &program, const json &inspected) {
  size_t chunks = 0;
  std::string stages;
  for (const auto &stage : program.stages) {
    chunks = std::max(chunks, stage->chunks.size());
    stages += (stages.empty() ? "" : " | ") + report::layersText(*stage);
  }
  facts.insert(facts.end(), {{"mode", inspected["mode"]},
                             {"mesh", planfile::meshText(*program.mesh, " ", " x ")},
                             {"rows of a step", program.global_batch},
                             {"tokens of a row", program.model->sequence},
                             {"rows of a micro-batch", program.micro_batch},
                             {"micro-batches", program.micro_batches},
                             {"schedule", program.schedule},
                             {"chunks of a stage", chunks},
                             {"layers of stages", stages},
                             {"zero", program.stages.empty() ? 0 : planfile::zeroStage(*program.stages[0])},
                             {"precision", planfile::precisionNote(program)},
                             {"optimizer", nameOf(program.optimizer)},
                             {"sequence parallelism", program.sequence_parallel},
                             {"cp kind", program.cp_kind.empty() ? "none" : program.cp_kind},
                             {"recompute", program.recompute},
                             {"dropout", program.dropout.empty() ? "0" : program.dropout},
                             {"memory limit", program.memory_limit},
                             {"moe budget", program.moe_budget},
                             {"moe capacity", program.moe_capacity}});
}

void addCounts(Facts &facts, const ProgramT &program, const json &inspected) {
  uint64_t arena = 0, live = 0;
  for (const auto &stage : program.stages) {
    arena = std::max<uint64_t>(arena, stage->arena_bytes);
    live = std::max<uint64_t>(live, stage->live_bytes);
  }
  facts.insert(facts.end(), {{"bytes of the largest arena", arena}, {"bytes live at once", live}});
  std::map<std::string, uint64_t> memory;
  for (const json &stage : inspected["memory"])
    for (const auto &[kind, bytes] : stage.items())
      if (kind != "stage" && kind != "arena_bytes" && bytes.is_number())
        memory[kind] = std::max(memory[kind], bytes.get<uint64_t>());
  for (const auto &[kind, bytes] : memory)
    facts.emplace_back("bytes of " + kind, bytes);
  facts.insert(facts.end(), {{"bytes of states, all stages", inspected["state_bytes"]},
                             {"kernels", inspected["kernels"].size()},
                             {"empty cells", inspected["bubble"]["empty"]}});
  for (const auto &[kind, count] : inspected["instructions"].items())
    facts.emplace_back("instructions: " + kind, count);
}

Facts factsOf(const Side &side) {
  const ProgramT &program = *side.carried.program;
  json inspected = report::inspectJson(program, side.carried.payload->fileSize(), side.carried.retry.get());
  Facts facts;
  addChoices(facts, program, inspected);
  addCounts(facts, program, inspected);
  return facts;
}

// Lists what differs. A fact that one side lacks is null there.
json differencesOf(const Side &first, const Side &second) {
  Facts a = factsOf(first), b = factsOf(second);
  json list = json::array();
  auto valueIn = [](const Facts &facts, const std::string &name) {
    auto at = std::find_if(facts.begin(), facts.end(), [&](const auto &fact) { return fact.first == name; });
    return at == facts.end() ? json() : at->second;
  };
  for (const auto &[name, value] : b)
    if (valueIn(a, name).is_null())
      a.emplace_back(name, json());
  for (auto [name, value] : a) {
    json other = valueIn(b, name);
    if (value.is_null()) // of which one side has none
      value = 0;
    if (other.is_null())
      other = 0;
    if (value == other)
      continue;
    list.push_back({{"what", name}, {"values", {value, other}}});
    if (value.is_number() && other.is_number())
      list.back()["change"] = other.get<double>() - value.get<double>();
  }
  return list;
}

using Calls = std::map<std::array<std::string, 3>, std::pair<uint64_t, uint64_t>>;

// Adds up calls and bytes of a step by kind, axes and phase.
Calls callsOf(const ProgramT &program) {
  Calls calls;
  for (const Traffic &t : report::listTraffic(program)) {
    auto &[count, bytes] = calls[{t.kind, planfile::joinedUserNames(*program.mesh, t.axes, " x "), std::string(toString(t.phase))}];
    count += t.perStep;
    bytes += t.bytes * t.perStep;
  }
  return calls;
}

json collectivesOf(const ProgramT &first, const ProgramT &second) {
  Calls a = callsOf(first), b = callsOf(second);
  for (const auto &[key, value] : b)
    a.try_emplace(key);
  json list = json::array();
  for (const auto &[key, value] : a) {
    auto other = b.count(key) ? b[key] : std::pair<uint64_t, uint64_t>();
    if (value != other)
      list.push_back({{"kind", key[0]}, {"axes", key[1]}, {"phase", key[2]},
                      {"calls", {value.first, other.first}}, {"step_bytes", {value.second, other.second}}});
  }
  return list;
}

// Returns the bytes of a plan without where its model was read from and what was predicted of it.
std::string bytesOf(const Side &side) {
  auto program = planfile::readProgram(*side.carried.payload->section(planfile::kPlanSection));
  if (!program) // it was read before
    return "";
  ProgramT &plan = **program;
  plan.model->source_path.clear();
  plan.predicted_step_s = plan.model_flops = plan.peak_flops = 0;
  for (auto &file : plan.files)
    file->path.clear();
  return planfile::writeProgram(plan);
}

json othersOf(const Side &first, const Side &second, bool hasDifferences) {
  json list = json::array();
  if (!hasDifferences && bytesOf(first) != bytesOf(second))
    list.push_back("the plans differ in what no figure here shows: addresses, orders, names, or why instructions are there");
  auto kernels = [](const Side &side) {
    std::map<std::string, std::string_view> code;
    for (const planfile::Section &section : side.carried.payload->sections())
      if (section.name.find(planfile::kKernelsPrefix) != std::string::npos)
        code[section.name] = section.bytes;
    return code;
  };
  if (!hasDifferences && list.empty() && kernels(first) != kernels(second))
    list.push_back("the machine code of kernels differs");
  return list;
}

// Returns the axis that what an event does belongs to: of several the first that is not that of stages.
std::string axisOf(const ProgramT &program, const planfile::InstructionT &instruction) {
  std::vector<uint32_t> axes;
  if (const planfile::CollectiveT *collective = instruction.body.AsCollective())
    axes = collective->axes;
  else if (auto message = planfile::messageOf(instruction))
    axes = {message->axis};
  if (program.origins[instruction.origin]->tactic == "expert")
    return std::string(planfile::nameOf(planfile::AxisRole::Expert));
  std::string stages(planfile::nameOf(planfile::AxisRole::Stages));
  for (const std::string &name : planfile::userNames(*program.mesh, axes))
    if (name != stages)
      return name;
  return stages;
}

std::string kindOf(const planfile::InstructionT &instruction) {
  if (const planfile::CollectiveT *collective = instruction.body.AsCollective())
    return std::string(toString(collective->kind));
  return "message";
}

json pairsOf(const std::map<std::string, double> &a, const std::map<std::string, double> &b, const char *name) {
  std::map<std::string, std::pair<double, double>> both;
  for (const auto &[key, seconds] : a)
    both[key].first = seconds;
  for (const auto &[key, seconds] : b)
    both[key].second = seconds;
  json list = json::array();
  for (const auto &[key, seconds] : both)
    list.push_back({{name, key}, {"seconds", {seconds.first, seconds.second}}, {"difference_s", seconds.second - seconds.first}});
  std::stable_sort(list.begin(), list.end(), [](const json &x, const json &y) {
    return std::abs(x["difference_s"].get<double>()) > std::abs(y["difference_s"].get<double>());
  });
  return list;
}

json costOf(const Side &first, const Side &second, const cost::Cluster &cluster) {
  StepParts a = partsOf(*first.carried.program, *first.forecast, cluster);
  StepParts b = partsOf(*second.carried.program, *second.forecast, cluster);
  double stepA = first.forecast->timeline.step, stepB = second.forecast->timeline.step;
  auto tokens = [](const Side &side) {
    const ProgramT &program = *side.carried.program;
    return double(program.global_batch) * double(program.model->sequence) / side.forecast->timeline.step;
  };
  return {{"cluster", cluster.name},
          {"step_s", {stepA, stepB}},
          {"difference_s", stepB - stepA},
          {"slower", (stepB - stepA) / stepA},
          {"tokens_per_s", {tokens(first), tokens(second)}},
          {"arena_bytes", {first.forecast->arena, second.forecast->arena}},
          {"process_peak", {first.forecast->processPeak, second.forecast->processPeak}},
          {"parts", pairsOf(a.parts, b.parts, "part")},
          {"waits", pairsOf(a.waits, b.waits, "wait")}};
}

} // namespace

StepParts advise::partsOf(const ProgramT &program, const simulate::Forecast &forecast, const cost::Cluster &cluster) {
  const auto &ranks = forecast.timeline.ranks;
  auto busiest = std::max_element(ranks.begin(), ranks.end(), [](const auto &x, const auto &y) { return x.compute < y.compute; });
  double beside = cluster.host ? std::min(busiest->idle, cluster.host->step) : 0;
  StepParts out;
  out.parts = {{"compute", busiest->compute}, {"bubble", busiest->idle - beside}, {"host", beside}};
  for (size_t i = 0; i < forecast.timeline.events.size(); ++i) {
    const runtime::TraceEvent &event = forecast.timeline.events[i];
    double seconds = forecast.timeline.exposed[i];
    if (event.rank != busiest->rank || seconds <= 0)
      continue;
    const planfile::InstructionT &instruction = forecast.stages[busiest->stage]->instructionOf(event.op);
    std::string axis = axisOf(program, instruction);
    out.parts[axis] += seconds;
    out.waits[axis + " " + kindOf(instruction)] += seconds;
  }
  return out;
}

json advise::comparisonJson(const Side &first, const Side &second, const cost::Cluster *cluster) {
  const ProgramT &a = *first.carried.program, &b = *second.carried.program;
  json differences = differencesOf(first, second), collectives = collectivesOf(a, b);
  auto model = [](const ProgramT &program) {
    return json{{"name", program.model->name}, {"parameters", program.model->parameters}, {"layers", program.model->layers}};
  };
  bool isSame = model(a) == model(b);
  json others = othersOf(first, second, !differences.empty() || !collectives.empty());
  json out = {{"programs", {first.path, second.path}},
              {"models", {model(a), model(b)}},
              {"same_model", isSame},
              {"identical", isSame && differences.empty() && collectives.empty() && others.empty()},
              {"differences", std::move(differences)},
              {"collectives", std::move(collectives)},
              {"others", std::move(others)}};
  if (cluster)
    out["cost"] = costOf(first, second, *cluster);
  out["words"] = comparisonWords(out);
  return out;
}
