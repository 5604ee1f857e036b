#include "lib/predict/PredictionText.h"

#include "lib/cost/Traffic.h"

#include <algorithm>
#include <cstdio>

using namespace llmc;
using namespace llmc::cost;
using nlohmann::json;
using planfile::AxisRole;


std::vector<std::pair<std::string, double>> predict::partsOf(const TimeParts &t) {
  std::vector<std::pair<std::string, double>> parts = {{"compute", t.compute}};
  for (auto [role, seconds] : {std::pair(AxisRole::Tensor, t.tp),
                               {AxisRole::Data, t.dp},
                               {AxisRole::Stages, t.pp},
                               {AxisRole::Context, t.cp},
                               {AxisRole::Expert, t.ep}})
    parts.emplace_back(planfile::nameOf(role), seconds);
  parts.insert(parts.end(), {{"bubble", t.bubble}, {"optimizer", t.optimizer}, {"host", t.host}});
  return parts;
}

namespace {

std::vector<std::pair<const char *, double>> memoryPartsOf(const MemoryParts &m) {
  return {{"weights", m.weights},
          {"masters", m.masters},
          {"gradients", m.gradients},
          {"optimizer", m.optimizer},
          {"gathered", m.gathered},
          {"activations", m.activations},
          {"logits", m.logits},
          {"workspace", m.workspace},
          {"communication", m.communication},
          {"fragmentation", m.fragmentation},
          {"context", m.context}};
}

size_t worstStage(const predict::Prediction &p) {
  auto worst = std::max_element(p.memory.begin(), p.memory.end(),
                                [](const MemoryParts &a, const MemoryParts &b) { return a.sum() < b.sum(); });
  return size_t(worst - p.memory.begin());
}

json memoryJson(const MemoryParts &parts) {
  json out{{"peak", parts.sum()}};
  for (auto [name, bytes] : memoryPartsOf(parts))
    out[name] = bytes;
  return out;
}

const char *nameOf(Transfer kind) {
  constexpr const char *names[] = {"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "shift"};
  return names[int(kind)];
}

const char *nameOf(cost::Phase phase) {
  constexpr const char *names[] = {"forward", "backward", "update"};
  return names[int(phase)];
}

AxisRole roleOf(Role role) {
  constexpr AxisRole roles[] = {AxisRole::Tensor, AxisRole::Context, AxisRole::Expert, AxisRole::Data, AxisRole::Stages};
  return roles[int(role)];
}

json flopsJson(const predict::Prediction &p) {
  json all = json::array();
  for (const StageFlops &flops : flopsOf(p.table, p.machine))
    all.push_back({{"stage", all.size()}, {"products", flops.products}, {"attention", flops.attention}});
  return all;
}

json trafficJson(const predict::Prediction &p) {
  json list = json::array();
  for (const Traffic &t : trafficOf(p.table, p.machine))
    list.push_back({{"stage", t.stage}, {"axis", planfile::nameOf(roleOf(t.role))}, {"kind", nameOf(t.kind)},
                    {"phase", nameOf(t.phase)}, {"bytes", t.bytes}, {"calls", t.calls}});
  return list;
}

std::string line(const char *format, auto... values) {
  char text[256];
  snprintf(text, sizeof text, format, values...);
  return text;
}

// Names what a part of the time is, in words.
std::string inWords(const std::string &part) {
  for (auto [role, words] : {std::pair(AxisRole::Tensor, "collectives of tensor-parallel ranks that nothing hides"),
                             {AxisRole::Data, "gradients and weights between data-parallel ranks that nothing hides"},
                             {AxisRole::Stages, "messages between stages"},
                             {AxisRole::Context, "keys and values between context-parallel ranks that nothing hides"},
                             {AxisRole::Expert, "tokens on their way to experts and back"}})
    if (part == planfile::nameOf(role))
      return words;
  if (part == "bubble")
    return "stages that wait for the first and the last micro-batch";
  if (part == "host")
    return "kernels that the host launches too slowly, and what a step does once";
  return part == "optimizer" ? "the update of weights, masters and moments"
                             : "products, attention and elementwise kernels";
}

// Says what the three largest parts of a step are.
std::string largestCosts(const predict::Prediction &p) {
  auto parts = predict::partsOf(p.time.parts);
  std::sort(parts.begin(), parts.end(), [](const auto &a, const auto &b) { return a.second > b.second; });
  bool hasCores = p.machine.cluster.host.has_value();
  std::string out = "most time    ";
  for (size_t i = 0; i < 3 && parts[i].second > 0; ++i)
    out += (i ? "; " : "") + (hasCores && parts[i].first == "bubble" ? "ranks that wait for a core or for each other" : inWords(parts[i].first)) + line(" (%.1f %%)", 100 * parts[i].second / p.time.step);
  return out + "\n";
}

} // namespace

json predict::meshJson(planfile::MeshSizes mesh) {
  json out = json::object();
  for (AxisRole role : planfile::kAxisRoles)
    if (role != AxisRole::ExpertData)
      out[std::string(planfile::nameOf(role))] = std::max<int64_t>(1, mesh.of(role));
  return out;
}

std::string predict::lackOfMemory(const Prediction &p) {
  size_t worst = worstStage(p);
  if (p.processPeak > 0) {
    double all = p.machine.cluster.memoryBytes * p.machine.cluster.host->cores;
    return p.processPeak <= all ? "" : line("the process needs %.4g GiB, and %s has %.4g GiB", p.processPeak / (1 << 30), p.machine.cluster.name.c_str(), all / (1 << 30));
  }
  double gib = 1 << 30, peak = p.memory[worst].sum() / gib, has = usableMemory(p.machine.cluster) / gib;
  return peak <= has ? ""
                     : line("stage %zu needs %.4g GiB, and a run may use %.4g GiB of %s", worst, peak, has,
                            p.machine.cluster.name.c_str());
}

// Returns the peak of all that computes: accelerators, one a rank, or the cores of a machine that was measured.
static double peakOf(const predict::Prediction &p) {
  const Choices &c = p.machine.choices;
  double devices = p.machine.cluster.host ? p.machine.cluster.host->cores : double(c.mesh.ranksOfStage() * c.mesh.pp);
  return devices * p.machine.peak();
}

json predict::predictionJson(const Prediction &p) {
  const Choices &c = p.machine.choices;
  double ranks = double(c.mesh.ranksOfStage() * c.mesh.pp), step = p.time.step;
  json time = json::object();
  for (auto [name, seconds] : predict::partsOf(p.time.parts))
    time[name] = seconds;
  json memory = memoryJson(p.memory[worstStage(p)]);
  json stages = json::array();
  for (size_t i = 0; i < p.memory.size(); ++i) {
    json stage = memoryJson(p.memory[i]);
    stage["stage"] = i;
    stages.push_back(std::move(stage));
  }
  memory["stages"] = std::move(stages);
  if (p.processPeak > 0)
    memory["process_peak"] = p.processPeak;
  json chosen = {{"mesh", predict::meshJson(c.mesh)},
                 {"virtual_stages", c.chunks},
                 {"micro_batch", c.microBatch},
                 {"micro_batches", c.microBatches},
                 {"schedule", nameOf(c.order)},
                 {"zero", c.zero},
                 {"sequence_parallel", c.sequenceParallel ? "on" : "off"},
                 {"recompute", nameOf(c.recompute)},
                 {"recomputed_layers", c.recompute == Kept::Full ? c.recomputed : 0.0}, // share of them
                 {"fits", predict::lackOfMemory(p).empty()},
                 {"precision", nameOf(c.precision)},
                 {"step_time_s", step},
                 {"simulated_step_s", p.simulated.step ? json(*p.simulated.step) : json()},
                 {"tokens_per_s_per_gpu", double(p.time.tokens) / step / ranks},
                 {"tflops_per_gpu", p.time.modelFlops / step / ranks / 1e12},
                 {"mfu", p.time.modelFlops / step / peakOf(p)},
                 {"hfu", p.time.hardwareFlops / step / peakOf(p)},
                 {"bubble_fraction", p.time.bubbleFraction},
                 {"time_s", std::move(time)},
                 {"memory_bytes", std::move(memory)},
                 {"traffic", trafficJson(p)},
                 {"flops", flopsJson(p)}};
  if (!p.simulated.step && !p.simulated.whyNot.empty())
    chosen["not_simulated"] = p.simulated.whyNot;
  json rejected = json::array();
  if (std::string reason = predict::lackOfMemory(p); !reason.empty())
    rejected.push_back({{"mesh", predict::meshJson(c.mesh)}, {"reason", reason}});
  return {{"model",
           {{"name", p.model},
            {"parameters", p.parameters},
            {"active_parameters", p.activeParameters},
            {"layers", p.table.layers.size()}}},
          {"chosen", std::move(chosen)},
          {"alternatives", json::array()},
          {"rejected", std::move(rejected)},
          {"search", {{"candidates", 1}, {"seconds", 0.0}}}};
}

std::string predict::predictionText(const Prediction &p) {
  const Choices &c = p.machine.choices;
  double ranks = double(c.mesh.ranksOfStage() * c.mesh.pp), step = p.time.step;
  std::string out = line("%s: %.3g parameters, %zu layers, on %lld %s %s\n", p.model.c_str(), p.parameters,
                         p.table.layers.size(), (long long)(ranks), p.machine.cluster.host ? "ranks of" : "x",
                         p.machine.cluster.name.c_str());
  out += line("mesh        dp %lld x pp %lld x tp %lld x cp %lld (experts: ep %lld)\n", (long long)c.mesh.dp,
              (long long)c.mesh.pp, (long long)c.mesh.tp, (long long)c.mesh.cp, (long long)c.mesh.ep);
  out += line(
      "choices     %s, %lld micro-batches of %lld, %s%s, zero %d, recompute %s%s, %s\n", nameOf(c.precision),
      (long long)c.microBatches, (long long)c.microBatch, nameOf(c.order),
      c.chunks > 1 ? line(" of %lld chunks a stage", (long long)c.chunks).c_str() : "", c.zero, nameOf(c.recompute),
      c.recompute == Kept::Full && c.recomputed < 1 ? line(" of %.0f %% of the layers", 100 * c.recomputed).c_str()
                                                    : "",
      c.software == Profile::Llmc    ? "llmc"
      : c.software == Profile::Fused ? "fused"
                                     : "eager");
  out += line("step        %.4g s, %.4g tokens/s a GPU, MFU %.1f %%, HFU %.1f %%, bubble %.1f %%\n", step,
              double(p.time.tokens) / step / ranks, 100 * p.time.modelFlops / step / peakOf(p),
              100 * p.time.hardwareFlops / step / peakOf(p), 100 * p.time.bubbleFraction);
  if (p.simulated.step && !p.machine.cluster.host)
    out += line("simulated   %.4g s: the prediction is %+.1f %% beside it\n", *p.simulated.step, 100 * (step / *p.simulated.step - 1));
  else if (!p.simulated.whyNot.empty())
    out += "simulated   no: " + p.simulated.whyNot + "\n";
  for (auto [name, seconds] : predict::partsOf(p.time.parts))
    if (seconds > 0)
      out += line("  %-12s %10.4g s %5.1f %%\n", name.c_str(), seconds, 100 * seconds / step);
  out += largestCosts(p);
  size_t worst = worstStage(p);
  const MemoryParts &memory = p.memory[worst];
  std::string lack = predict::lackOfMemory(p);
  out += line("memory      %.4g GiB of %.4g, stage %zu%s\n", memory.sum() / (1 << 30),
              p.machine.cluster.memoryBytes / (1 << 30), worst, lack.empty() ? "" : ": DOES NOT FIT");
  for (auto [name, bytes] : memoryPartsOf(memory))
    if (bytes > 0)
      out += line("  %-12s %10.4g GiB\n", name, bytes / (1 << 30));
  if (p.processPeak > 0)
    out += line("process     %.4g GiB of %.4g at its peak, with all ranks\n", p.processPeak / (1 << 30),
                p.machine.cluster.memoryBytes * p.machine.cluster.host->cores / (1 << 30));
  return out;
}
