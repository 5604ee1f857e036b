// Implements the search of llmc plan and llmc compile.
#include "tools/llmc/Choose.h"

#include "lib/predict/PredictionText.h"
#include "lib/predict/SimulatePlan.h"
#include "lib/support/FlagSetters.h"

#include <algorithm>
#include <set>

namespace llmc {
namespace {

// Says which choices of a command line are open: those that are auto; with a mesh that is, or none, all that are not given.
search::Free freeOf(const CommandLine &line) {
  bool hasAxis = false, hasAutoAxis = line.isAuto("--mesh");
  for (planfile::AxisRole role : planfile::kAxisRoles) {
    std::string flag = support::text("--", planfile::nameOf(role));
    hasAxis |= line.has(flag);
    hasAutoAxis |= line.isAuto(flag);
  }
  const bool hasMesh = line.has("--mesh") && !line.isAuto("--mesh");
  const bool all = line.isAuto("--mesh") || (!hasAxis && !hasMesh);
  auto open = [&](const char *flag) { return line.isAuto(flag) || (all && !line.has(flag)); };
  search::Free free;
  free.pp = open("--pp"), free.tp = open("--tp"), free.cp = open("--cp"), free.ep = open("--ep"), free.etp = open("--etp");
  free.dp = open("--dp") || (hasAutoAxis && !hasMesh && !line.has("--dp"));
  free.microBatch = open("--micro-batch"), free.schedule = open("--schedule"), free.virtualStages = open("--virtual-stages");
  // Finds both where one of them is auto and nothing is said of the other: chunks interleave, or do not.
  free.schedule |= line.isAuto("--virtual-stages") && !line.has("--schedule");
  free.virtualStages |= line.isAuto("--schedule") && !line.has("--virtual-stages");
  free.zero = open("--zero"), free.sequenceParallel = open("--sequence-parallel"), free.recompute = open("--recompute");
  // Takes it as llmc plan does without a search, too: where nothing is said it is found.
  free.recompute |= line.options.recompute == Recompute::Auto || (line.command == "plan" && !line.has("--recompute"));
  free.stages = open("--stages");
  free.gradients = line.isAuto("--grad-dtype");
  return free;
}

} // namespace

std::optional<Choice> requestOf(const CommandLine &line, std::vector<std::string> &errors) {
  Choice choice{{line.options, line.prices, freeOf(line), 0}, {}, {}, {}};
  CompileOptions &options = choice.request.options;
  predict::PriceOptions &prices = choice.request.prices;
  auto cluster = predict::clusterOf(prices, errors);
  if (!cluster)
    return std::nullopt;
  // Computes in what the accelerator is for, where nothing is said.
  if (line.command == "compile")
    prices.precision = options.precision ? std::optional(predict::numberOf(*options.precision)) : std::nullopt;
  choice.request.dollarsPerGpuHour = line.dollarsPerGpuHour;
  choice.request.byDollars = line.objective == "tokens_per_dollar";
  const search::Free &free = choice.request.free;
  // Takes as many accelerators as a mesh has that is given whole.
  const int64_t others = options.pp * options.tp * options.cp;
  choice.request.gpus = cluster->gpus ? cluster->gpus : free.dp || free.pp || free.tp || free.cp ? 0 : options.dp * others;
  if (!choice.request.gpus) {
    errors.push_back(line.autos.empty() || line.isAuto("--mesh") ? "a mesh is found for a number of accelerators: give --gpus N"
                                                                 : line.autos.front() + " auto is found for a number of accelerators: give --gpus N");
    return std::nullopt;
  }
  const int64_t given = (free.dp ? 1 : options.dp) * others; // ranks of the axes that are fixed
  const bool isWhole = !free.dp && !free.pp && !free.tp && !free.cp;
  if (choice.request.gpus % given || (isWhole && choice.request.gpus != given)) {
    errors.push_back(support::text("the mesh that is given has dp ", free.dp ? "auto" : std::to_string(options.dp), " x pp ", options.pp, " x tp ",
                                   options.tp, " x cp ", options.cp, " = ", given, " ranks, which ", isWhole ? "are not " : "do not divide ",
                                   choice.request.gpus, " accelerators: change --gpus, or leave an axis out"));
    return std::nullopt;
  }
  CompileOptions some = options; // a mesh of these for what is resolved
  some.dp = choice.request.gpus / others;
  some.ep = 1, some.globalBatch = 0;
  if (options.pp == 1) { // resolved for one stage
    some.schedule.reset(), some.virtualStages.reset();
  }
  if (cluster->host && choice.request.gpus > kMostRanks)
    errors.push_back(support::text("--gpus ", choice.request.gpus, ": ", cluster->name, " has ", cluster->host->cores,
                                   " cores; use ", kMostRanks, " ranks or fewer, or give a --gpu"));
  if (!free.schedule && !free.virtualStages && options.scheduleKind() != Schedule::Interleaved && options.chunks() > 1)
    errors.push_back("the schedule that is given runs one chunk of layers a stage; use --virtual-stages 1 or --schedule interleaved");
  auto machine = predict::resolve(prices, some, /*hasDataSize=*/true, errors);
  if (!machine || !errors.empty())
    return std::nullopt;
  options.precision = some.precision;
  options.gradDtype = some.gradDtype;
  choice.machine = std::move(*machine);
  choice.request.options.stages = line.options.stages;
  return choice;
}

// Takes simulated steps for those of the table, where ranks share cores, and orders plans by them. Simulates them on all cores; false
// after diagnostics.
static bool simulateAll(predict::RaisedModels &models, search::Result &result, size_t count) {
  std::vector<std::string> errors(result.found.size());
  search::Readers readers(models);
  readers.run(result.found.size(), [&](predict::RaisedModels &own, size_t i) {
    search::Found &found = result.found[i];
    errors[i] = search::firstError(own.context(), [&] { (void)predict::simulatePlan(own.context(), found.options, found.prediction); });
  });
  for (size_t i = 0; i < errors.size(); ++i)
    if (!result.found[i].prediction.simulated.step) {
      mlir::emitError(mlir::UnknownLoc::get(&models.context())) << errors[i];
      return false;
    }
  std::stable_sort(result.found.begin(), result.found.end(),
                   [](const search::Found &a, const search::Found &b) { return a.prediction.time.step < b.prediction.time.step; });
  if (result.found.size() > count)
    result.found.erase(result.found.begin() + std::ptrdiff_t(count), result.found.end());
  return true;
}

// Simulates the plans that were found beside their tables, on all cores.
static void simulateFound(predict::RaisedModels &models, predict::Simulating how, search::Result &result) {
  std::vector<predict::Prediction *> predictions;
  for (search::Found &found : result.found)
    predictions.push_back(&found.prediction);
  std::vector<size_t> chosen = predict::chooseSimulated(predictions, how);
  search::Readers readers(models);
  readers.run(chosen.size(), [&](predict::RaisedModels &own, size_t i) {
    search::Found &found = result.found[chosen[i]];
    simulateOne(own.context(), found.options, found.prediction);
  });
}

void simulateOne(mlir::MLIRContext &context, const CompileOptions &options, predict::Prediction &prediction) {
  std::string error = search::firstError(context, [&] { (void)predict::simulateBeside(context, options, prediction); });
  if (!prediction.simulated.step)
    prediction.simulated.whyNot = "is not built: " + error;
}

bool findPlans(predict::RaisedModels &models, const CommandLine &line, Choice &choice, size_t count) {
  constexpr size_t ofProcessors = 24; // meshes, each of which is simulated
  const bool sharesCores = choice.machine.cluster.host.has_value();
  const bool byDollars = choice.request.byDollars;
  std::vector<int64_t> counts{choice.request.gpus};
  for (int64_t fewer = choice.request.gpus; byDollars && fewer % 2 == 0;)
    counts.push_back(fewer /= 2);
  search::Result all;
  for (int64_t gpus : counts) {
    search::Request request = choice.request;
    request.gpus = gpus;
    auto result = search::search(models, request, choice.machine, sharesCores ? ofProcessors : count);
    if (!result || (sharesCores && !simulateAll(models, *result, count)))
      return false;
    choice.request.options.globalBatch = result->globalBatch;
    for (search::Found &found : result->found)
      all.found.push_back(std::move(found));
    all.rejected.insert(all.rejected.end(), result->rejected.begin(), result->rejected.end());
    if (result->nearest && !all.nearest)
      all.nearest = std::move(result->nearest);
    all.candidates += result->candidates, all.bounded += result->bounded, all.priced += result->priced, all.tables += result->tables, all.seconds += result->seconds;
  }
  if (byDollars)
    std::stable_sort(all.found.begin(), all.found.end(), [&](const search::Found &a, const search::Found &b) {
      return search::costOf(a, choice.request) < search::costOf(b, choice.request);
    });
  if (all.found.size() > count)
    all.found.erase(all.found.begin() + std::ptrdiff_t(count), all.found.end());
  choice.result = std::move(all);
  if (!sharesCores && line.command == "plan")
    simulateFound(models, line.simulating, choice.result);
  if (choice.result.found.empty() && choice.result.nearest) {
    search::Readers readers(models);
    search::Request request = choice.request;
    request.options = choice.result.nearest->options;
    request.options.stages = line.options.stages;
    choice.levers = search::leversOf(readers, request, choice.machine, choice.result.nearest->prediction);
  }
  return true;
}

std::string whyNothingFits(const Choice &choice) {
  const search::Result &result = choice.result;
  if (result.nearest) {
    std::string why = support::text("none of ", result.candidates, " plans for ", choice.request.gpus, " accelerators fits; what needs least: ",
                                    predict::lackOfMemory(result.nearest->prediction));
    return why + (choice.levers.empty() ? "; use more accelerators"
                                        : "; use more accelerators, or: " + choice.levers.front().command);
  }
  std::string why = support::text("no plan for ", choice.request.gpus, " accelerators and ", choice.request.options.globalBatch, " rows of a step");
  std::set<std::string> reasons;
  for (const search::Rejected &rejected : result.rejected)
    if (reasons.size() < 3 && reasons.insert(rejected.reason).second)
      why += (reasons.size() > 1 ? "; " : ": ") + rejected.reason;
  return reasons.empty() ? why + ": dp divides the rows of a step, stages the layers, ep the experts and the ranks, and schedules for several stages have "
                                "them; change --global-batch, --gpus or the choices that are given"
                         : why;
}

} // namespace llmc
