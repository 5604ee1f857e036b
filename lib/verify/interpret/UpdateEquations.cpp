// Implements SGD and AdamW element by element in double.
#include "lib/verify/interpret/UpdateEquations.h"

#include <algorithm>
#include <cmath>

namespace llmc::verify {
namespace {

// Is added to the norm by torch.nn.utils.clip_grad_norm_.
constexpr double kClipEpsilon = 1e-6;

double scalarOf(const UpdateInput &input, const std::string &name) {
  auto found = input.scalars.find(name);
  return found == input.scalars.end() ? NAN : found->second;
}

// Returns 1 - beta^t. Takes the host's value, which it computes from the unrounded beta and
// rounds to float, if that is within 1e-5.
double biasCorrection(const UpdateInput &input, const std::string &beta, const std::string &given) {
  double exact = 1 - std::pow(scalarOf(input, beta), double(input.step));
  double rounded = scalarOf(input, given);
  return std::abs(rounded - exact) <= 1e-5 * exact ? rounded : exact;
}

const Tensor &at(const NamedTensors &tensors, const std::string &name, const Tensor &zeros) {
  auto found = tensors.find(name);
  return found == tensors.end() || found->second.shape != zeros.shape ? zeros : found->second;
}

double clipFactor(const UpdateInput &input) {
  double clip = scalarOf(input, "clip"), norm = globalNorm(input.gradients);
  return clip > 0 && clip < norm + kClipEpsilon ? clip / (norm + kClipEpsilon) : 1;
}

bool decays(const UpdateInput &input, const std::string &name, const Tensor &weight) {
  auto larger = std::count_if(weight.shape.begin(), weight.shape.end(),
                              [](int64_t size) { return size > 1; });
  return larger >= 2 || (weight.shape.size() >= 2 && !input.stretched.count(name));
}

void stepOfAdamW(const UpdateInput &input, const std::string &name, const Tensor &gradient,
                 double factor, double decay, OptimizerState &after) {
  double beta1 = scalarOf(input, "beta1"), beta2 = scalarOf(input, "beta2");
  double correction1 = biasCorrection(input, "beta1", "bias_correction1");
  double correction2 = biasCorrection(input, "beta2", "bias_correction2");
  double lr = scalarOf(input, "lr"), eps = scalarOf(input, "eps");
  Tensor &weight = after.weights[name];
  Tensor zeros(weight.shape);
  Tensor m = at(input.before.moments1, name, zeros), v = at(input.before.moments2, name, zeros);
  for (int64_t i = 0; i < weight.size(); ++i) {
    double g = gradient.data[i] * factor;
    m.data[i] += (1 - beta1) * (g - m.data[i]);
    v.data[i] += (1 - beta2) * (g * g - v.data[i]);
    double mean = m.data[i] / correction1, deviation = std::sqrt(v.data[i] / correction2);
    weight.data[i] = (1 - lr * decay) * weight.data[i] - lr * mean / (deviation + eps);
  }
  after.moments1[name] = std::move(m);
  after.moments2[name] = std::move(v);
}

// Returns second - first for each tensor of `second`.
NamedTensors changes(const NamedTensors &first, const NamedTensors &second) {
  NamedTensors result;
  for (const auto &[name, tensor] : second) {
    auto from = first.find(name);
    Tensor &change = result[name] = tensor;
    if (from == first.end())
      continue;
    if (from->second.shape != tensor.shape) {
      change = Tensor(); // Give it no elements, so that no shape fits it.
      continue;
    }
    for (int64_t i = 0; i < change.size(); ++i)
      change.data[i] -= from->second.data[i];
  }
  return result;
}

void keepWorst(TensorError &worst, TensorError error, uint64_t step) {
  if (!worst.name.empty() && !(error.value > worst.value))
    return;
  worst = {error.name + ", step " + std::to_string(step), error.value};
}

} // namespace

double globalNorm(const NamedTensors &gradients) {
  double sum = 0;
  for (const auto &[name, tensor] : gradients)
    for (double g : tensor.data)
      sum += g * g;
  return std::sqrt(sum);
}

OptimizerState updatedState(const UpdateInput &input) {
  OptimizerState after;
  after.weights = input.before.weights;
  double factor = clipFactor(input), lr = scalarOf(input, "lr");
  for (auto &[name, weight] : after.weights) {
    Tensor zeros(weight.shape);
    if (auto rate = input.biasRates.find(name); rate != input.biasRates.end()) {
      if (input.adamw) // its gradient is zero
        stepOfAdamW(input, name, zeros, /*factor=*/1, /*decay=*/0, after);
      weight = input.before.weights.at(name);
      const Tensor &excess = at(input.excess, name, zeros);
      for (int64_t i = 0; i < weight.size(); ++i)
        weight.data[i] -= rate->second * double((excess.data[i] > 0) - (excess.data[i] < 0));
      continue;
    }
    const Tensor &gradient = at(input.gradients, name, zeros);
    double decay = decays(input, name, weight) ? scalarOf(input, "weight_decay") : 0;
    if (input.adamw) {
      stepOfAdamW(input, name, gradient, factor, decay, after);
      continue;
    }
    for (int64_t i = 0; i < weight.size(); ++i)
      weight.data[i] -= lr * (gradient.data[i] * factor + decay * weight.data[i]);
  }
  return after;
}

TensorError UpdateErrors::largest() const {
  TensorError worst{"grad_norm", norm};
  for (const TensorError *error : {&weights, &moments})
    if (!(error->value <= worst.value))
      worst = *error;
  return worst;
}

void UpdateErrors::compare(const UpdateInput &input, const OptimizerState &after, double gradNorm) {
  OptimizerState expected = updatedState(input);
  const OptimizerState &before = input.before;
  ++steps;
  keepWorst(weights,
            gradientError(changes(before.weights, after.weights),
                          changes(before.weights, expected.weights)),
            steps);
  keepWorst(values, gradientError(after.weights, expected.weights), steps);
  if (input.adamw) {
    keepWorst(moments, gradientError(after.moments1, expected.moments1), steps);
    keepWorst(moments, gradientError(after.moments2, expected.moments2), steps);
  }
  norm = std::max(norm, relativeError(gradNorm, globalNorm(input.gradients)));
}

} // namespace llmc::verify
