#include "lib/predict/SimulatePlan.h"

#include "lib/pipeline/Pipeline.h"
#include "lib/predict/PriceOptions.h"
#include "lib/simulate/Forecast.h"
#include "lib/support/Error.h"
#include "passes/6-emit/Emit.h"

#include <algorithm>

using namespace mlir;
using namespace llmc;

namespace {

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

// Compiles the plan of a prediction, without machine code, and simulates a step. Nullopt after diagnostics.
std::optional<simulate::Forecast> forecastOf(MLIRContext &context, CompileOptions options, const predict::Prediction &prediction) {
  options.weights = "random"; // nothing is read
  options.recompute = predict::recomputeOf(prediction.machine.choices.recompute);
  options.verifiesIr = false;
  OwningOpRef<ModuleOp> module = readModel(context, options);
  planfile::ProgramT program;
  if (!module || failed(runPhases(*module, options, Phase::Import, Phase::Emit)) ||
      failed(emit::writePlan(*module, program)))
    return std::nullopt;
  auto forecast = simulate::forecast(program, prediction.machine);
  if (!forecast) {
    module->emitError("cannot be simulated, which is a bug of llmc: ") << forecast.message();
    return std::nullopt;
  }
  return std::move(*forecast);
}

// Counts the instructions of a work: a collective is one with four for the events around it.
double instructionsOf(const cost::Work &work) { return double(work.order.size()) + 4 * double(work.collectives.size()); }

// Returns why a plan cannot be simulated: it has choices that compile does not build; empty if it can be.
std::string whyNotBuilt(const predict::Prediction &prediction) {
  const cost::Choices &c = prediction.machine.choices;
  if (c.software != cost::Profile::Llmc)
    return "plans of other stacks are not built";
  const bool isBuilt = c.precision != cost::Number::Fp8 && c.moments == cost::Number::Fp32 && c.overlap && !c.cudaGraphs && !c.launchBlocking &&
                       !c.expertOverlap && !c.tensorOverlap && !c.pipelineScatter && c.dispatch == cost::Dispatch::AllToAll &&
                       c.offload == cost::Offload::None && !cost::writesScores(c.attention) && (c.recompute != cost::Kept::Full || c.recomputed == 1);
  return isBuilt ? "" : "compile does not have all of these choices";
}

// Limit what is built and simulated where nobody asks for more: one plan, and all that are printed. On a core, 32,000 take a
// second.
constexpr double kWorkOfPlan = 32'000, kWorkOfPlans = 64'000;

// Returns about how many instructions a plan has, with as many more as take the time of all else: an instruction that is
// simulated again takes a two-hundredth of one that is built, and a chunk of layers by itself as many as 150.
double workOfSimulation(const predict::Prediction &prediction) {
  const cost::Table &table = prediction.table;
  const cost::Choices &choices = prediction.machine.choices;
  auto passes = [](const cost::Part &part) {
    return instructionsOf(part.forward) + instructionsOf(part.backward) + instructionsOf(part.weightGradients);
  };
  double instructions = passes(table.before) + passes(table.after);
  for (int kind : table.layers)
    instructions += passes(table.kinds[size_t(kind)]);
  double chunks = double(choices.mesh.pp * choices.chunks);
  return instructions * (1 + double(choices.microBatches) / 200) + 150 * chunks;
}

} // namespace

std::vector<size_t> predict::chooseSimulated(ArrayRef<Prediction *> predictions, Simulating how) {
  std::vector<size_t> chosen;
  double all = 0;
  for (auto [i, prediction] : llvm::enumerate(predictions)) {
    std::string &whyNot = prediction->simulated.whyNot;
    whyNot = whyNotBuilt(*prediction);
    if (!whyNot.empty())
      continue;
    double work = workOfSimulation(*prediction);
    if (how == Simulating::Off)
      whyNot = "--simulate off";
    else if (how == Simulating::Auto && (work > kWorkOfPlan || all + work > kWorkOfPlans))
      whyNot = support::text("about ", int64_t(work), " instructions take long to build; use --simulate on");
    if (!whyNot.empty())
      continue;
    all += work;
    chosen.push_back(i);
  }
  return chosen;
}

LogicalResult predict::simulateBeside(MLIRContext &context, CompileOptions options, Prediction &prediction) {
  auto forecast = forecastOf(context, std::move(options), prediction);
  if (forecast)
    prediction.simulated = {forecast->timeline.step, ""};
  return success(forecast.has_value());
}

LogicalResult predict::simulatePlan(MLIRContext &context, CompileOptions options, Prediction &prediction) {
  auto forecast = forecastOf(context, std::move(options), prediction);
  if (!forecast)
    return failure();
  const auto &ranks = forecast->timeline.ranks;
  auto busiest = std::max_element(ranks.begin(), ranks.end(), [](const auto &x, const auto &y) { return x.compute < y.compute; });
  prediction.time.parts = {};
  addRank(*busiest, std::min(busiest->idle, prediction.machine.cluster.host->step), prediction.time.parts);
  prediction.time.step = forecast->timeline.step;
  prediction.simulated = {forecast->timeline.step, ""};
  prediction.time.bubbleFraction = forecast->bubble;
  prediction.processPeak = forecast->processPeak;
  return success();
}
