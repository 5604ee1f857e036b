// Runs the census, a rounded step, and updates with a gradient that is not finite.
#include "lib/verify/types/TypeChecks.h"

#include "dialects/parallel/Annotations.h"
#include "dialects/parallel/Evaluate.h"
#include "lib/verify/interpret/CompareUpdates.h"
#include "lib/verify/interpret/Interpret.h"
#include "lib/verify/interpret/Sources.h"
#include "lib/verify/types/Census.h"

#include <map>
#include <set>

using namespace mlir;

namespace llmc::verify {

namespace {

// Limits what roundings of f32 make of masters, moments and the norm.
constexpr double kOfFloats = 1e-5;
// Limits it where the gradients that a step leaves are themselves rounded, to 8 bits.
constexpr double kOfLowGradients = 2e-2;

bool isFp32(const CompileOptions &options) {
  return options.precision.value_or(Precision::Fp32) == Precision::Fp32;
}

bool checkCensus(ModuleOp module, const CompileOptions &options, Report &report) {
  std::vector<TypeFault> faults = censusOfTypes(module, options);
  bool good = true;
  for (const char *rule : kTypeRules) {
    if (options.infer && std::string(rule) == "update")
      continue;
    if (isFp32(options) && std::string(rule) != "moved")
      continue;
    double count = 0;
    std::string note;
    for (const TypeFault &fault : faults)
      if (fault.rule == rule) {
        note += (count++ ? "\n" : "") + fault.text;
      }
    good &= report.add(std::string("types:") + rule, "plan", count, 0, note);
  }
  return good;
}

// Returns the largest difference between a weight and its master rounded to the weight's type.
double weightError(ModuleOp module, const NamedTensors &states) {
  double worst = 0;
  for (auto state : module.getOps<graph::StateOp>()) {
    if (state.getRole() != graph::Role::master || !state.getOf())
      continue;
    auto parameter = module.lookupSymbol<graph::StateOp>(*state.getOf());
    graph::Tensor master = states.at(state.getSymName().str());
    const graph::Tensor &weight = states.at(parameter.getSymName().str());
    graph::roundTo(parameter.getType(), master);
    for (int64_t i = 0; i < master.size(); ++i)
      worst = std::max(worst, std::abs(master.data[i] - weight.data[i]));
  }
  return worst;
}

bool checkRounded(ModuleOp module, const CompileOptions &options, const Trial &trial,
                  Report &report) {
  Trial steps = trial;
  steps.steps.resize(std::min<size_t>(steps.steps.size(), 2));
  UpdateErrors errors;
  double weights = 0;
  AfterStep compare = compareUpdates(module, options.optimizer == Optimizer::AdamW, errors);
  auto after = [&](const StepData &data, const NamedTensors &before,
                   const parallel::StepOutput &output) {
    compare(data, before, output);
    weights = std::max(weights, weightError(module, output.states));
  };
  FailureOr<Outcome> outcome = interpret(module, steps, {}, after, graph::Rounding::ToTypes);
  if (failed(outcome))
    return report.add("types:rounded:run", "all ranks", 1, 0, "a step does not run");
  double limit = options.gradDtype == Precision::Fp32 ? kOfFloats : kOfLowGradients;
  bool good =
      report.add("types:rounded:masters", errors.values.name, errors.values.value, limit);
  if (options.optimizer == Optimizer::AdamW)
    good &= report.add("types:rounded:moments", errors.moments.name, errors.moments.value, limit);
  good &= report.add("types:rounded:norm", "grad_norm of 2 steps", errors.norm, limit);
  good &= report.add("types:rounded:replicas", "copies of one element",
                     outcome->maxReplicaDifference, 0);
  return report.add("types:rounded:weights", "each is its master rounded", weights, 0) && good;
}

} // namespace

bool checkTypes(ModuleOp module, const CompileOptions &options, const Trial &trial,
                Report &report) {
  if (isFp32(options) && options.reduceDtype.value_or(Precision::Fp32) == Precision::Fp32)
    return true;
  bool good = checkCensus(module, options, report);
  return (options.infer || isFp32(options) || checkRounded(module, options, trial, report)) && good;
}

//===-- A skipped step --------------------------------------------------------===//

namespace {

// Runs updates without micro-batches, of which `spoil` changes what a rank holds.
class SkippedUpdate {
public:
  using Spoil = std::function<void(int64_t rank, NamedTensors &states)>;

  SkippedUpdate(ModuleOp module, const Trial &trial) : module(module) {
    input.states = statesFromSources(module, trial.weights);
    for (auto state : module.getOps<graph::StateOp>()) // Moments are told from zeros.
      if (state.getRole() == graph::Role::moment1 || state.getRole() == graph::Role::moment2)
        input.states[state.getSymName().str()] = filled(validShape(state), 0.25);
    for (auto [name, value] : trial.steps.front().scalars)
      input.scalars[name] = filled({}, value);
  }

  // Returns what is wrong with an update; empty if nothing is.
  std::string run(bool isSkipped, Spoil spoil) {
    std::map<int64_t, NamedTensors> before;
    std::string changed;
    input.beforeUpdate = [&](int64_t rank, NamedTensors &states) {
      before[rank] = states;
      spoil(rank, states);
    };
    input.afterUpdate = [&](int64_t rank, NamedTensors &states) {
      for (const auto &[name, value] : before[rank])
        if (isSkipped && isKept(name) && states[name].data != value.data)
          changed = name + " changes on rank " + std::to_string(rank);
    };
    FailureOr<parallel::StepOutput> output = parallel::evaluateStep(module, input);
    if (failed(output))
      return "the update does not run";
    double told = output->outputs.at("skipped").data[0];
    if (told != double(isSkipped))
      return "skipped is " + std::to_string(told) + ", expected " + std::to_string(isSkipped);
    return changed;
  }

private:
  bool isKept(StringRef name) const {
    name.consume_front(parallel::kFlatPrefix);
    auto state = module.lookupSymbol<graph::StateOp>(name);
    return state && state.getRole() != graph::Role::accumulator;
  }
  static graph::Tensor filled(std::vector<int64_t> shape, double value) {
    graph::Tensor tensor(std::move(shape));
    std::fill(tensor.data.begin(), tensor.data.end(), value);
    return tensor;
  }

  mutable ModuleOp module;
  parallel::StepInput input;
};

} // namespace

// Returns whether the update of the module has the output `skipped`.
static bool tellsSkipped(ModuleOp module) {
  bool tells = false;
  for (auto func : module.getOps<func::FuncOp>())
    for (unsigned i = 0; i < func.getNumResults(); ++i)
      if (auto name = func.getResultAttrOfType<StringAttr>(i, graph::kOutput))
        tells |= name.getValue() == "skipped";
  return tells;
}

bool checkSkip(ModuleOp module, const Trial &trial, Report &report) {
  if (!tellsSkipped(module))
    return true;
  parallel::MeshAttr mesh = parallel::getMesh(module);
  int64_t ranks = mesh ? mesh.getNumRanks() : 1;
  // Takes whole sums of flat buckets, where there are any: the update scatters them.
  std::vector<std::string> accumulators, sums;
  for (auto state : module.getOps<graph::StateOp>())
    if (state.getRole() == graph::Role::accumulator && state.getOf())
      accumulators.push_back(state.getSymName().str());
    else if (state.getRole() == graph::Role::accumulator &&
             cast<RankedTensorType>(state.getType()).getRank() > 0)
      sums.push_back(state.getSymName().str());
  if (!sums.empty())
    accumulators = sums;
  SkippedUpdate update(module, trial);
  double faults = 0;
  std::string note;
  auto run = [&](const std::string &what, bool isSkipped, SkippedUpdate::Spoil spoil) {
    std::string fault = update.run(isSkipped, std::move(spoil));
    if (!fault.empty())
      note += (faults++ ? "\n" : "") + what + ": " + fault;
  };
  run("finite gradients", false, [](int64_t, NamedTensors &) {});
  // The first tensor of the first and the last of the last rank stand for all.
  for (int64_t rank : std::set<int64_t>{0, ranks - 1})
    for (double number : {double(INFINITY), double(NAN)})
      run(std::to_string(number) + " on rank " + std::to_string(rank), true,
          [=](int64_t own, NamedTensors &states) {
            auto spoil = [&](const std::string &name) {
              auto found = states.find(name);
              if (found == states.end())
                found = states.find(parallel::kFlatPrefix.str() + name);
              if (found == states.end() || found->second.data.empty())
                return false;
              found->second.data.front() = number;
              return true;
            };
            if (own != rank)
              return;
            if (rank == 0)
              (void)llvm::any_of(accumulators, spoil);
            else
              (void)llvm::any_of(llvm::reverse(accumulators), spoil);
          });
  return report.add("updates:skip", "parameters, masters and moments", faults, 0, note);
}

} // namespace llmc::verify
