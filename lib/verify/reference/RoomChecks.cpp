// Counts rows without room by the routes that ranks send, not by what is received.
#include "lib/verify/reference/RoomChecks.h"

#include "dialects/graph/Graph.h"
#include "dialects/graph/GraphAttrs.h"
#include "dialects/parallel/Annotations.h"
#include "dialects/parallel/LockstepInterpreter.h"
#include "lib/pipeline/Pipeline.h"
#include "lib/planfile/Check.h"
#include "lib/verify/interpret/Interpret.h"
#include "lib/verify/reference/Limits.h"
#include "lib/verify/reference/PlanChecks.h"
#include "lib/verify/subject/RunPlan.h"

#include <algorithm>
#include <cmath>

using namespace mlir;

namespace llmc::verify {

namespace {

// Adds up, over the mixtures of all layers and micro-batches, the rows for which a rank of their experts has no room.
class RowCounter {
public:
  RowCounter(ModuleOp module, const CompileOptions &options)
      : mesh(parallel::getMesh(module)), ranks(mesh), budget(options.moeBudget) {}

  void observe(int64_t rank, Operation *op, ArrayRef<const Tensor *> operands) {
    auto sort = dyn_cast<graph::SortRoutesOp>(op);
    if (!sort || !op->getParentOfType<func::FuncOp>().getSymName().starts_with("forward"))
      return;
    Routes &own = routes[op];
    size_t turn = own.turns[rank]++;
    if (own.byTurn.size() <= turn)
      own.byTurn.resize(turn + 1);
    own.byTurn[turn][rank] = *operands[0];
  }

  double lost() {
    double sum = 0;
    for (auto &[op, own] : routes)
      for (auto &byRank : own.byTurn)
        sum += lostAt(cast<graph::SortRoutesOp>(op).getExperts(), byRank);
    return sum;
  }

private:
  // Holds the routes that each rank sends, whenever it executes an op: for each layer and micro-batch.
  struct Routes {
    std::map<int64_t, size_t> turns;
    std::vector<std::map<int64_t, Tensor>> byTurn;
  };

  double lostAt(int64_t experts, const std::map<int64_t, Tensor> &byRank) {
    parallel::Axes axes(mesh.getAxes(planfile::AxisRole::Expert)), others;
    for (StringAttr name : mesh.getNames())
      if (!llvm::is_contained(axes, name))
        others.push_back(name);
    int64_t owners = mesh.getSize(planfile::AxisRole::Expert);
    std::map<int64_t, std::vector<double>> arrivals; // by group: the rows of each owner
    for (const auto &[rank, sent] : byRank) {
      std::vector<double> &rows = arrivals[ranks.coordinate(rank, others)];
      rows.resize(owners);
      for (double expert : sent.data)
        if (expert >= 0 && expert < double(experts))
          ++rows[int64_t(expert) * owners / experts];
    }
    const Tensor &any = byRank.begin()->second;
    int64_t choices = any.shape.back(), most = owners * std::min(choices, experts / owners);
    double factor = budget > 0 ? budget : CompileOptions::kMoeBudget;
    double slots = std::min(std::max(std::ceil(factor * double(choices)), double(choices)), double(most));
    double room = slots * double(any.size() / choices), lost = 0;
    for (const auto &[group, rows] : arrivals)
      for (double arriving : rows)
        lost += std::max(arriving - room, 0.0);
    return lost;
  }

  parallel::MeshAttr mesh;
  parallel::LockstepInterpreter ranks; // for the coordinates of ranks
  double budget;
  std::map<Operation *, Routes> routes;
};

// Interprets the first step; `lost` becomes the number of rows that the routes leave without room.
FailureOr<Outcome> count(ModuleOp parted, const CompileOptions &options, const Trial &trial, double &lost) {
  RowCounter counter(parted, options);
  FailureOr<Outcome> outcome =
      interpret(parted, trial, {}, {}, graph::Rounding::None,
                [&](int64_t rank, Operation *op, ArrayRef<const Tensor *> operands) {
                  counter.observe(rank, op, operands);
                });
  lost = counter.lost() * double(trial.steps.front().repeats);
  return outcome;
}

double countedBy(const Outcome &outcome) {
  auto found = outcome.outputs.find(graph::kLostRows.str());
  return found == outcome.outputs.end() ? NAN : found->second;
}

Trial firstStep(const Trial &trial) {
  Trial first = trial;
  first.steps.resize(1);
  return first;
}

Trial withoutWeights(const Trial &trial) {
  Trial first = firstStep(trial);
  for (auto &[name, tensor] : first.weights)
    std::fill(tensor.data.begin(), tensor.data.end(), 0);
  return first;
}

size_t findingsIn(const planfile::ProgramT &program) {
  Report report;
  checkStatic(program, report);
  double sum = 0;
  for (const Check &check : report.checks)
    sum += check.value;
  return size_t(sum);
}

} // namespace

Trial crowded(const Trial &trial) {
  Trial first = firstStep(trial);
  for (auto &[name, tensor] : first.steps.front().inputs)
    if (name != "labels" && !tensor.data.empty()) {
      double largest = *std::max_element(tensor.data.begin(), tensor.data.end());
      std::fill(tensor.data.begin(), tensor.data.end(), largest);
    }
  return first;
}

LogicalResult checkRoom(const Subject &roomy, const CompileOptions &options, const Reference &reference,
                        Report &report) {
  ModuleOp raised = roomy.at(Phase::Raise);
  if (!raised || !mayLackRoom(raised, options))
    return success();
  Subject own;
  own.options = options;
  if (failed(compileFrom(raised, Phase::Raise, Phase::Emit, own)))
    return failure();
  report.add("budget:static", "plan", double(findingsIn(*own.program)), 0);
  ModuleOp parted = own.at(Phase::Partition);
  auto compare = [&](const char *subject, double counted, double expected) {
    double distance = std::abs(counted - expected);
    report.add("budget:lost", subject, std::isnan(distance) ? INFINITY : distance, 0,
               distance == 0 ? "" : "counts " + std::to_string(counted) + " rows without room, of which there are " +
                                        std::to_string(expected));
  };
  double lost = 0;
  FailureOr<Outcome> alike = count(parted, options, crowded(reference.trial), lost);
  if (failed(alike))
    return failure();
  compare("tokens that are one", countedBy(*alike), lost);
  FailureOr<Outcome> outcome = count(parted, options, firstStep(reference.trial), lost);
  if (failed(outcome))
    return failure();
  compare("drawn tokens", countedBy(*outcome), lost);
  if (lost == 0) {
    TensorError gradients = gradientError(outcome->gradients, reference.exact.gradients);
    report.add("budget:loss", "first step", relativeError(outcome->losses[0], reference.exact.losses[0]), kExact);
    report.add("budget:gradients", gradients.name, gradients.value, kExact);
  }
  Trial still = withoutWeights(reference.trial);
  if (failed(count(parted, options, still, lost)))
    return failure();
  auto run = runPlan(*own.program, *own.kernels, still);
  if (run)
    compare("kernels, weights of zeros", countedBy(*run), lost);
  else
    report.add("budget:lost", "kernels, weights of zeros", 1, 0, run.message());
  return success();
}

} // namespace llmc::verify
