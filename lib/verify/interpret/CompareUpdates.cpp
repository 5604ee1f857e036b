#include "lib/verify/interpret/CompareUpdates.h"

#include "dialects/graph/GraphAttrs.h"
#include "lib/verify/interpret/Sources.h"

using namespace mlir;

namespace llmc::verify {

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

// Returns the rates of the sources that are biases of routers.
static std::map<std::string, double> biasRatesOf(ModuleOp module) {
  std::map<std::string, double> rates;
  for (auto state : module.getOps<graph::StateOp>())
    if (auto rate = state->getAttrOfType<FloatAttr>(graph::kBiasRate); rate && state.getViews())
      for (auto view : state.getViews()->getAsRange<graph::ViewAttr>())
        rates[view.getSource().getValue().str()] = float(rate.getValueAsDouble()); // as the plan has it
  return rates;
}

AfterStep compareUpdates(ModuleOp module, bool adamw, UpdateErrors &errors) {
  return [=, &errors, stretched = vectorsOf(module), rates = biasRatesOf(module)](
             const StepData &data, const NamedTensors &before, const parallel::StepOutput &after) {
    auto stateOf = [&](const NamedTensors &states) {
      OptimizerState state;
      state.weights = sourcesFromStates(module, states, graph::Role::parameter);
      // The update is that of the masters, which weights in a low type are rounded from.
      for (auto &[name, master] : sourcesFromStates(module, states, graph::Role::master))
        state.weights[name] = master;
      state.moments1 = sourcesFromStates(module, states, graph::Role::moment1);
      state.moments2 = sourcesFromStates(module, states, graph::Role::moment2);
      return state;
    };
    UpdateInput input;
    input.before = stateOf(before);
    input.gradients = sourcesFromStates(module, after.states, graph::Role::accumulator);
    input.stretched = stretched;
    input.biasRates = rates;
    for (const auto &[name, rate] : rates)
      if (auto excess = input.gradients.extract(name); !excess.empty())
        input.excess.insert(std::move(excess));
    input.scalars = data.scalars;
    input.step = errors.steps + 1;
    input.adamw = adamw;
    auto norm = after.outputs.find("grad_norm");
    errors.compare(input, stateOf(after.states),
                   norm == after.outputs.end() ? NAN : norm->second.data[0]);
  };
}

} // namespace llmc::verify
