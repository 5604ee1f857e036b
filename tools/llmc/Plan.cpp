// Implements llmc plan: predicts time and memory of a training step.
#include "tools/llmc/Commands.h"
#include "tools/llmc/Diagnostics.h"

#include "lib/pipeline/Pipeline.h"
#include "lib/predict/Predict.h"
#include "lib/predict/PredictionText.h"
#include "lib/search/Search.h"
#include "lib/simulate/Forecast.h"
#include "lib/support/Json.h"
#include "passes/6-emit/Emit.h"
#include "llvm/Support/raw_ostream.h"

namespace llmc {
using namespace mlir;
namespace {

// Is the most ranks that one machine's processors are asked to run.
constexpr int64_t kMostRanks = 256;

// Tells why a machine that was measured cannot take these choices; empty if it can.
std::string whyNotHere(const cost::Machine &machine, const CompileOptions &options) {
  const std::string &name = machine.cluster.name;
  if (machine.choices.software != cost::Profile::Llmc)
    return "--software: " + name + " was measured with programs of llmc; leave it out, or give a --gpu";
  if (options.ranks() > kMostRanks)
    return name + " has " + std::to_string(machine.cluster.host->cores) + " cores, and the mesh " +
           std::to_string(options.ranks()) + " ranks: use " + std::to_string(kMostRanks) + " or fewer, or give a --gpu";
  return "";
}

// Returns the part of a step that communication over an axis belongs to.
double &partOf(planfile::AxisRole role, cost::TimeParts &parts) {
  using planfile::AxisRole;
  switch (role) {
  case AxisRole::Tensor:
    return parts.tp;
  case AxisRole::Context:
    return parts.cp;
  case AxisRole::Expert:
  case AxisRole::ExpertTensor:
    return parts.ep;
  case AxisRole::Stages:
    return parts.pp;
  default:
    return parts.dp;
  }
}

// Adds the seconds of a rank to the parts of a step, of which `beside` are those beside all instructions. What goes over
// several axes belongs to the first that is not that of stages.
void addRank(const simulate::RankTime &rank, double beside, cost::TimeParts &parts) {
  parts.compute += rank.compute;
  parts.bubble += rank.idle - beside;
  parts.host += beside;
  for (const auto &[axes, seconds] : rank.exposed) {
    SmallVector<StringRef> names;
    StringRef(axes).split(names, ' ');
    planfile::AxisRole role = planfile::AxisRole::Stages;
    for (StringRef name : names)
      if (role == planfile::AxisRole::Stages)
        role = planfile::roleNamed(name.str()).value_or(planfile::AxisRole::Data);
    partOf(role, parts) += seconds;
  }
}

// Compiles the plan, without machine code, and takes the time of its simulation for that of the table. Fails after
// diagnostics.
LogicalResult simulatePlan(MLIRContext &context, CompileOptions options, predict::Prediction &prediction) {
  options.weights = "random";
  cost::Kept kept = prediction.machine.choices.recompute;
  options.recompute = kept == cost::Kept::Full ? Recompute::Full : kept == cost::Kept::Selective ? Recompute::Selective : Recompute::None;
  OwningOpRef<ModuleOp> module = readModel(context, options);
  planfile::ProgramT program;
  if (!module || failed(runPhases(*module, options, Phase::Import, Phase::Emit)) ||
      failed(emit::writePlan(*module, program)))
    return failure();
  auto forecast = simulate::forecast(program, prediction.machine);
  if (!forecast)
    return module->emitError("cannot be simulated, which is a bug of llmc: ") << forecast.message();
  const auto &ranks = forecast->timeline.ranks;
  auto busiest = std::max_element(ranks.begin(), ranks.end(), [](const auto &x, const auto &y) { return x.compute < y.compute; });
  prediction.time.parts = {};
  addRank(*busiest, std::min(busiest->idle, prediction.machine.cluster.host->step), prediction.time.parts);
  prediction.time.step = forecast->timeline.step;
  prediction.time.bubbleFraction = forecast->bubble;
  prediction.processPeak = forecast->processPeak;
  return success();
}

} // namespace

int runPlan(const CommandLine &line) {
  CompileOptions options = line.options;
  std::vector<std::string> errors;
  bool hasDataSize = line.has("--dp") || line.has("--mesh");
  std::optional<cost::Machine> machine = predict::resolve(line.prices, options, hasDataSize, errors);
  if (machine && machine->cluster.host)
    if (std::string why = whyNotHere(*machine, options); !why.empty())
      errors.push_back(why);
  for (const std::string &error : errors)
    llvm::errs() << "llmc: error: " << error << "\n";
  if (!errors.empty() || !machine)
    return 1;
  DialectRegistry registry;
  registerDialects(registry);
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  context.loadAllAvailableDialects();
  TerminalDiagnostics diagnostics(&context, options.model, line.verbosity);
  predict::RaisedModels models(context);
  if (getenv("LLMC_SEARCH")) {
    search::Request request{options, line.prices, {}, machine->cluster.gpus};
    request.options.globalBatch = options.globalBatch;
    search::Free &f = request.free;
    f.dp = f.pp = f.tp = f.cp = f.ep = f.etp = f.microBatch = f.virtualStages = f.schedule = f.zero = f.sequenceParallel = f.recompute = f.stages = true;
    if (const char *skip = getenv("LLMC_FIX")) {
      StringRef k(skip);
      if (k.contains("cp")) f.cp = false;
      if (k.contains("zero")) f.zero = false;
      if (k.contains("sp")) f.sequenceParallel = false;
      if (k.contains("etp")) f.etp = false;
      if (k.contains("schedule")) f.schedule = f.virtualStages = false;
    }
    auto result = search::search(models, request, *machine, 5);
    if (!result) return 1;
    for (auto &found : result->found) {
      auto &c = found.candidate;
      fprintf(stderr, "%.4f s dp %ld pp %ld tp %ld cp %ld ep %ld etp %ld v %ld mb %ld x %ld %s zero %d sp %d kept %s peak %.1f GiB\n", found.prediction.time.step, c.dp, c.pp, c.layout.tp, c.layout.cp, c.layout.ep, c.layout.etp, c.chunks, c.microBatch, c.microBatches, cost::nameOf(c.order), c.zero, c.layout.sequenceParallel, cost::nameOf(c.recompute), found.prediction.memory[0].sum() / (1 << 30));
    }
    fprintf(stderr, "candidates %ld priced %ld tables %ld seconds %.2f\n", result->candidates, result->priced, result->tables, result->seconds);
    for (auto &r : result->rejected) if (getenv("LLMC_REJ")) fprintf(stderr, "rejected dp %ld pp %ld tp %ld cp %ld ep %ld: %s\n", r.mesh.dp, r.mesh.pp, r.mesh.tp, r.mesh.cp, r.mesh.ep, r.reason.c_str());
    return 0;
  }
  auto prediction = predict::readPrediction(models, options, *machine, !line.has("--recompute") || options.recompute == Recompute::Auto);
  if (!prediction)
    return 1;
  if (!predict::price(*prediction))
    return 1;
  if (prediction->machine.cluster.host && failed(simulatePlan(context, options, *prediction)))
    return 1;
  if (line.json)
    llvm::outs() << support::jsonText(predict::predictionJson(*prediction), 2) << "\n";
  else
    llvm::outs() << predict::predictionText(*prediction);
  return 0;
}

} // namespace llmc
