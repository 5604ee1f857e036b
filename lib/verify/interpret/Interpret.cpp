// Splits the rows of a step into micro-batches and hands them to parallel::evaluateStep().
#include "lib/verify/interpret/Interpret.h"

#include "dialects/parallel/Annotations.h"
#include "dialects/graph/Repeat.h"
#include "dialects/parallel/Evaluate.h"
#include "lib/verify/interpret/Sources.h"

using namespace mlir;

namespace llmc::verify {

// Returns rows [k * rows, (k + 1) * rows) of every input.
static NamedTensors microBatch(const NamedTensors &inputs, int64_t rows, int64_t k) {
  NamedTensors parts;
  for (const auto &[name, whole] : inputs) {
    std::vector<int64_t> shape = whole.shape;
    shape[0] = rows;
    Tensor part(shape);
    std::copy_n(whole.data.begin() + k * part.size(), part.size(), part.data.begin());
    parts[name] = std::move(part);
  }
  return parts;
}

// Appends the routes of every micro-batch to those of the step.
static auto recordRoutes(ChosenRoutes &routes) {
  return [&routes](Operation *op, int64_t layer, ArrayRef<Tensor> results) {
    if (!isa<graph::RouteOp>(op))
      return;
    llvm::StringRef router = parallel::getNodeName(graph::locationOfLayer(op->getLoc(), layer));
    std::vector<int32_t> &chosen = routes[router.str()];
    chosen.insert(chosen.end(), results[0].data.begin(), results[0].data.end());
  };
}

// Interprets the first run of an inference.
static FailureOr<Outcome> infer(ModuleOp module, const Trial &trial, graph::Rounding rounding) {
  parallel::StepInput input;
  input.rounding = rounding;
  input.states = statesFromSources(module, trial.weights);
  input.microBatches = {trial.steps.front().inputs};
  Outcome outcome;
  input.observeResults = recordRoutes(outcome.routes.emplace_back());
  FailureOr<parallel::StepOutput> output = parallel::evaluateStep(module, input);
  if (failed(output))
    return failure();
  outcome.results = std::move(output->outputs);
  outcome.maxReplicaDifference = output->maxReplicaDifference;
  return outcome;
}

FailureOr<Outcome> interpret(ModuleOp module, const Trial &trial,
                             const std::function<void()> &ended, const AfterStep &afterStep,
                             graph::Rounding rounding, const parallel::Observer &observe) {
  if (parallel::isInference(module))
    return infer(module, trial, rounding);
  auto rows = module->getAttrOfType<IntegerAttr>(graph::kBatch);
  if (!rows || rows.getInt() < 1)
    return module.emitError("has no graph.batch, the rows of one micro-batch");
  NamedTensors states = statesFromSources(module, trial.weights);
  Outcome outcome;
  for (const StepData &data : trial.steps) {
    parallel::StepInput input;
    input.ended = ended;
    input.observeResults = recordRoutes(outcome.routes.emplace_back());
    input.rounding = rounding;
    input.observeRanks = observe;
    input.repeats = data.repeats;
    input.states = std::move(states);
    int64_t all = data.inputs.empty() ? 0 : data.inputs.begin()->second.shape[0];
    for (int64_t k = 0; k < all / rows.getInt(); ++k)
      input.microBatches.push_back(microBatch(data.inputs, rows.getInt(), k));
    for (auto [name, value] : data.scalars) {
      Tensor scalar(std::vector<int64_t>{});
      scalar.data[0] = value;
      input.scalars[name] = scalar;
    }
    FailureOr<parallel::StepOutput> output = parallel::evaluateStep(module, input);
    if (failed(output))
      return failure();
    if (afterStep)
      afterStep(data, input.states, *output);
    outcome.maxReplicaDifference =
        std::max(outcome.maxReplicaDifference, output->maxReplicaDifference);
    for (const auto &[name, value] : output->outputs)
      if (name == "loss")
        outcome.losses.push_back(value.data[0]);
      else if (outcome.losses.size() <= 1 && &data == &trial.steps.front())
        outcome.outputs[name] = value.data[0];
    if (&data == &trial.steps.front())
      outcome.gradients = sourcesFromStates(module, output->states, graph::Role::accumulator);
    states = std::move(output->states);
  }
  outcome.weights = sourcesFromStates(module, states, graph::Role::parameter);
  return outcome;
}

} // namespace llmc::verify
