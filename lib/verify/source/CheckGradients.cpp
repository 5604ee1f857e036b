// Checks loss and gradients of the step against derivatives of the imported model by dual
// numbers: along a random direction v through all parameters the slope of the loss is sum g.v,
// which a wrong g equals with probability 0. Neither the compiler's differentiation rules nor the
// loss that it builds take part.
#include "dialects/graph/GraphAttrs.h"
#include "lib/pipeline/Pipeline.h"
#include "lib/verify/reference/Limits.h"
#include "lib/verify/subject/DiagnosticCapture.h"
#include "lib/verify/interpret/Forward.h"
#include "lib/verify/source/FromFile.h"
#include "lib/verify/interpret/Interpret.h"
#include "lib/verify/source/ExactConstants.h"
#include "lib/verify/interpret/Sources.h"
#include "runtime/states/Random.h"

#include <algorithm>
#include <cmath>
#include <optional>

using namespace mlir;

namespace llmc::verify {
namespace {

using graph::Dual;
using graph::DualTensor;

constexpr double kIgnored = -100; // label of a position that is not counted
constexpr uint64_t kSeed = 7;

// Returns the sum of the cross entropy over the labels that are not ignored; adds their number to
// `counted`.
Dual crossEntropy(const DualTensor &logits, const double *labels, double &counted) {
  int64_t words = logits.shape.back(), positions = logits.size() / words;
  Dual total;
  for (int64_t i = 0; i < positions; ++i) {
    if (labels[i] == kIgnored)
      continue;
    const Dual *row = &logits.data[i * words];
    double most = row->value;
    for (int64_t v = 1; v < words; ++v)
      most = std::max(most, row[v].value);
    Dual sum;
    for (int64_t v = 0; v < words; ++v)
      sum += exp(row[v] - most);
    total += log(sum) + most - row[static_cast<int64_t>(labels[i])];
    counted += 1;
  }
  return total;
}

// Returns the sum over rows of their auxiliary losses, each as often as the row has labels that count.
Dual weightedLoss(const DualTensor &ofRows, const double *labels, int64_t rowLabels) {
  Dual total;
  for (int64_t row = 0; row < ofRows.size(); ++row) {
    double counted = rowLabels - std::count(labels + row * rowLabels, labels + (row + 1) * rowLabels, kIgnored);
    total += ofRows.data[row] * Dual(counted);
  }
  return total;
}

// Evaluates the loss of the imported model with dual numbers.
class Imported {
public:
  Imported(ModuleOp module, const Trial &trial) : meant(withExactConstants(module)), trial(trial) {}

  // Returns the mean loss of the first step and its slope along `direction` (by source tensor).
  FailureOr<Dual> loss(const NamedTensors &direction);
  // Returns the source tensors that have gradients, in the order in which @forward takes them, which is nearly the
  // order of their first use.
  std::vector<std::string> sources();

private:
  OwningOpRef<ModuleOp> meant;
  const Trial &trial;
};

FailureOr<Dual> Imported::loss(const NamedTensors &direction) {
  func::FuncOp forward = forwardOf(*meant);
  const StepData &step = trial.steps.front();
  auto rows = (*meant)->getAttrOfType<IntegerAttr>(graph::kBatch);
  auto labels = step.inputs.find("labels");
  if (!forward)
    return failure();
  if (!rows || rows.getInt() < 1 || labels == step.inputs.end())
    return forward.emitError("is no model to train: it has no rows or no labels");
  NamedTensors weights = statesFromSources(*meant, trial.weights);
  NamedTensors slopes = statesFromSources(*meant, direction);
  std::map<std::string, DualTensor> states;
  for (auto &[name, weight] : weights) {
    DualTensor &state = states[name] = DualTensor(weight.shape);
    for (int64_t i = 0; i < weight.size(); ++i)
      state.data[i] = Dual(weight.data[i], slopes[name].data[i]);
  }
  const Tensor &all = labels->second;
  int64_t rowLabels = all.size() / all.shape[0];
  Dual total;
  double counted = 0;
  for (int64_t k = 0; k < all.shape[0] / rows.getInt(); ++k) {
    auto results = runForward(forward, states, step, k);
    if (failed(results))
      return failure();
    const DualTensor &logits = results->front();
    if (logits.size() != rows.getInt() * rowLabels * logits.shape.back())
      return forward.emitError("its first result does not fit the labels");
    const double *own = &all.data[k * rows.getInt() * rowLabels];
    total += crossEntropy(logits, own, counted);
    for (unsigned i = 1; i < results->size(); ++i)
      if (auto name = forward.getResultAttrOfType<StringAttr>(i, graph::kOutput);
          name && name == graph::kAuxiliaryLoss && (*results)[i].size() == rows.getInt())
        total += weightedLoss((*results)[i], own, rowLabels);
  }
  return total / Dual(std::max(counted, 1.0));
}

std::vector<std::string> Imported::sources() {
  std::vector<std::string> names;
  func::FuncOp forward = forwardOf(*meant);
  for (unsigned i = 0; forward && i < forward.getNumArguments(); ++i) {
    auto symbol = forward.getArgAttrOfType<FlatSymbolRefAttr>(i, graph::kState);
    auto state = symbol ? meant->lookupSymbol<graph::StateOp>(symbol.getValue()) : graph::StateOp();
    if (!state || !state.getViews() || state->hasAttr(graph::kBiasRate))
      continue;
    for (auto view : state.getViews()->getAsRange<graph::ViewAttr>())
      if (std::string name = view.getSource().getValue().str(); !llvm::is_contained(names, name))
        names.push_back(name);
  }
  return names;
}

double sizeOf(const Tensor &tensor) {
  double sum = 0;
  for (double x : tensor.data)
    sum += x * x;
  return std::sqrt(sum);
}

// Draws a direction through some of the tensors, scaled such that each tensor contributes about 1
// to sum g.v.
class Direction {
public:
  Direction(const Trial &trial, const NamedTensors &gradients, std::vector<std::string> names)
      : trial(trial), gradients(gradients), names(std::move(names)) {
    floor = 1e-3 * globalNorm(gradients);
  }
  NamedTensors draw(size_t first, size_t limit) const;  // along tensors [first, limit)
  double expected(const NamedTensors &direction) const; // sum g.v

private:
  const Trial &trial;
  const NamedTensors &gradients;
  std::vector<std::string> names;
  double floor;
};

NamedTensors Direction::draw(size_t first, size_t limit) const {
  NamedTensors direction;
  for (size_t t = first; t < limit; ++t) {
    auto weight = trial.weights.find(names[t]);
    auto gradient = gradients.find(names[t]);
    if (weight == trial.weights.end())
      continue;
    double size = gradient == gradients.end() ? 0 : sizeOf(gradient->second);
    double scale = 1 / std::max({size, floor, 1e-300});
    Tensor &tensor = direction[names[t]] = Tensor(weight->second.shape);
    for (int64_t i = 0; i < tensor.size(); ++i)
      tensor.data[i] = scale * runtime::normal(kSeed, t + 1, i);
  }
  return direction;
}

double Direction::expected(const NamedTensors &direction) const {
  double sum = 0;
  for (const auto &[name, tensor] : direction) {
    auto found = gradients.find(name);
    if (found == gradients.end())
      continue;
    if (found->second.shape != tensor.shape)
      return NAN;
    for (int64_t i = 0; i < tensor.size(); ++i)
      sum += found->second.data[i] * tensor.data[i];
  }
  return sum;
}

// Returns the last tensor in forward order with a wrong gradient, given that there is one (a
// fault spreads to the tensors before it), by bisection in log2(count) evaluations.
FailureOr<size_t> lastWrong(Imported &imported, const Direction &drawn, size_t count) {
  size_t first = 0, limit = count;
  while (limit - first > 1) {
    size_t middle = (first + limit) / 2;
    NamedTensors direction = drawn.draw(middle, limit);
    FailureOr<Dual> loss = imported.loss(direction);
    if (failed(loss))
      return failure();
    bool isWrong = !(std::abs(loss->slope - drawn.expected(direction)) <= kExact);
    (isWrong ? first : limit) = middle;
  }
  return first;
}

// Returns the first step at boundary train, evaluated again with meant constants if the module's
// differ from them (0.1 in float32).
FailureOr<Outcome> firstStep(const Reference &reference) {
  bool changed = false;
  auto meant = withExactConstants(reference.one.at(Phase::Train), &changed);
  if (!changed)
    return reference.exact;
  Trial first = reference.trial;
  first.steps.resize(1);
  return interpret(*meant, first);
}

} // namespace

bool checkGradients(const Reference &reference, Report &report) {
  ModuleOp module = reference.one.at(Phase::Import);
  const CompileOptions &options = reference.one.options;
  if (!module || options.infer)
    return true;
  DiagnosticCapture captured(module.getContext());
  auto fails = [&] { return report.add("fp64:train:run", "@forward", 1, 0, captured.text); };
  // Dropout is named by the folded layers, so the raised model is changed; that it equals the imported one
  // is a check of its own.
  OwningOpRef<ModuleOp> changed;
  if (changesModel(module, options)) {
    changed = reference.one.at(Phase::Raise).clone();
    module = *changed;
    if (failed(changeModel(module, options)))
      return fails();
  }
  FailureOr<Outcome> got = firstStep(reference);
  if (failed(got) || got->losses.empty())
    return fails();
  Imported imported(module, reference.trial);
  std::vector<std::string> names = imported.sources();
  Direction drawn(reference.trial, got->gradients, names);
  NamedTensors direction = drawn.draw(0, names.size());
  FailureOr<Dual> loss = imported.loss(direction);
  if (failed(loss))
    return fails();
  bool good = report.add("fp64:train:loss", "first step",
                         relativeError(got->losses[0], loss->value), kExact);
  double error = std::abs(loss->slope - drawn.expected(direction));
  std::string subject = std::to_string(names.size()) + " tensors";
  if (!(error <= kExact)) {
    FailureOr<size_t> place = lastWrong(imported, drawn, names.size());
    subject = failed(place) || names.empty() ? "" : names[*place];
  }
  return report.add("fp64:train:gradients", subject, error, kExact) && good;
}

} // namespace llmc::verify
