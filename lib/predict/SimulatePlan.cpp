#include "lib/predict/SimulatePlan.h"

#include "lib/pipeline/Pipeline.h"
#include "lib/predict/PriceOptions.h"
#include "lib/simulate/Forecast.h"
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

} // namespace

LogicalResult predict::simulatePlan(MLIRContext &context, CompileOptions options, Prediction &prediction) {
  options.weights = "random";
  options.recompute = recomputeOf(prediction.machine.choices.recompute);
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
