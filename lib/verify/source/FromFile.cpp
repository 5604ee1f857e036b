// Compares the raised module with the imported one and the update with the papers' equations.
#include "lib/verify/source/FromFile.h"

#include "dialects/graph/GraphAttrs.h"
#include "lib/verify/subject/Captured.h"
#include "lib/verify/interpret/Forward.h"
#include "lib/verify/source/MeantConstants.h"
#include "lib/verify/interpret/Sources.h"

using namespace mlir;

namespace llmc::verify {
namespace {

constexpr double kExact = 1e-10;

std::string nameOfResult(func::FuncOp func, unsigned i) {
  auto name = func.getResultAttrOfType<StringAttr>(i, graph::kOutput);
  return name ? name.str() : "output " + std::to_string(i);
}

// Returns the float outputs of the first micro-batch, by name.
FailureOr<NamedTensors> outputsOf(ModuleOp module, const Trial &trial) {
  OwningOpRef<ModuleOp> meant = withMeantConstants(module);
  func::FuncOp forward = forwardOf(*meant);
  if (!forward)
    return failure();
  NamedTensors states = statesFromSources(*meant, trial.weights);
  auto results = runForward(forward, states, trial.steps.front(), 0);
  if (failed(results))
    return failure();
  NamedTensors outputs;
  for (auto [i, value] : llvm::enumerate(*results))
    if (isa<FloatType>(cast<RankedTensorType>(forward.getResultTypes()[i]).getElementType()))
      outputs[nameOfResult(forward, i)] = std::move(value);
  return outputs;
}

} // namespace

bool checkRaised(ModuleOp raised, const Reference &reference, Report &report) {
  ModuleOp imported = reference.one.at(Phase::Import);
  if (!imported)
    return true;
  Captured captured(raised.getContext());
  auto expected = outputsOf(imported, reference.trial), got = outputsOf(raised, reference.trial);
  if (failed(expected) || failed(got))
    return report.add("fp64:raise:run", "@forward", 1, 0, captured.text);
  TensorError error = resultError(*got, *expected);
  return report.add("fp64:raise:outputs", error.name, error.value, kExact);
}

// Returns the sources that a state views with fewer than two dimensions.
static std::set<std::string> vectorsOf(ModuleOp module) {
  std::set<std::string> names;
  for (auto state : module.getOps<graph::StateOp>()) {
    if (!state.getViews())
      continue;
    int64_t rank = static_cast<int64_t>(validShape(state).size()) - (state.getStacked() ? 1 : 0);
    for (auto view : state.getViews()->getAsRange<graph::ViewAttr>())
      if (rank < 2)
        names.insert(view.getSource().getValue().str());
  }
  return names;
}

AfterStep compareUpdates(ModuleOp module, bool adamw, UpdateErrors &errors) {
  return [=, &errors, stretched = vectorsOf(module)](
             const StepData &data, const NamedTensors &before, const parallel::StepOutput &after) {
    auto stateOf = [&](const NamedTensors &states) {
      OptimizerState state;
      state.weights = sourcesFromStates(module, states, graph::Role::parameter);
      state.moments1 = sourcesFromStates(module, states, graph::Role::moment1);
      state.moments2 = sourcesFromStates(module, states, graph::Role::moment2);
      return state;
    };
    UpdateInput input;
    input.before = stateOf(before);
    input.gradients = sourcesFromStates(module, after.states, graph::Role::accumulator);
    input.stretched = stretched;
    input.scalars = data.scalars;
    input.step = errors.steps + 1;
    input.adamw = adamw;
    auto norm = after.outputs.find("grad_norm");
    errors.compare(input, stateOf(after.states),
                   norm == after.outputs.end() ? NAN : norm->second.data[0]);
  };
}

bool checkUpdate(const Reference &reference, Report &report) {
  if (reference.one.options.infer)
    return true;
  const UpdateErrors &update = reference.update;
  std::string name = "fp64:update:";
  bool adam = reference.one.options.optimizer == Optimizer::AdamW;
  name += adam ? "adamw:" : "sgd:";
  bool good = report.add(name + "weights", update.weights.name, update.weights.value, kExact);
  if (adam)
    good &= report.add(name + "moments", update.moments.name, update.moments.value, kExact);
  good &= report.add(name + "norm", "grad_norm of " + std::to_string(update.steps) + " steps",
                     update.norm, kExact);
  return good;
}

bool checkFromFile(const Reference &reference, Report &report) {
  ModuleOp raised = reference.one.at(Phase::Raise);
  bool good = checkRaised(raised, reference, report);
  return checkGradients(reference, report) && good;
}

} // namespace llmc::verify
