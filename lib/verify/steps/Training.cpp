// Computes the errors by which checks compare outcomes; an error that is NaN counts as infinite.
#include "lib/verify/steps/Training.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace llmc::verify {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

double squares(const Tensor &tensor) {
  double sum = 0;
  for (double x : tensor.data)
    sum += x * x;
  return sum;
}

// Returns the squared L2 distance; infinite for NaN, another shape or a missing tensor.
double squaredDistance(const NamedTensors &got, const std::string &name, const Tensor &expected) {
  auto found = got.find(name);
  if (found == got.end() || found->second.shape != expected.shape)
    return kInfinite;
  double sum = 0;
  for (size_t i = 0; i < expected.data.size(); ++i) {
    double d = found->second.data[i] - expected.data[i];
    sum += d * d;
  }
  return std::isfinite(sum) ? sum : kInfinite;
}

double normOf(const NamedTensors &tensors) {
  double sum = 0;
  for (const auto &[name, tensor] : tensors)
    sum += squares(tensor);
  return std::sqrt(sum);
}

double quotient(double distance, double size) {
  if (distance == 0)
    return 0;
  double value = distance / size;
  return std::isfinite(value) ? value : kInfinite;
}

} // namespace

NamedTensors allRows(const StepData &data) {
  NamedTensors all = data.inputs;
  if (data.repeats == 1)
    return all;
  for (auto &[name, tensor] : all) {
    const std::vector<double> once = tensor.data;
    for (int64_t i = 1; i < data.repeats; ++i)
      tensor.data.insert(tensor.data.end(), once.begin(), once.end());
    tensor.shape[0] *= data.repeats;
  }
  return all;
}

double relativeError(double got, double expected) {
  if (!std::isfinite(got) || !std::isfinite(expected))
    return kInfinite;
  return quotient(std::abs(got - expected), std::abs(expected));
}

TensorError gradientError(const NamedTensors &got, const NamedTensors &expected, double share) {
  TensorError worst;
  double floor = share * normOf(expected);
  for (const auto &[name, tensor] : expected) {
    double size = std::max(std::sqrt(squares(tensor)), floor);
    double error = quotient(std::sqrt(squaredDistance(got, name, tensor)), size);
    if (worst.name.empty() || error > worst.value)
      worst = {name, error};
  }
  return worst;
}

TensorError vectorError(const NamedTensors &got, const NamedTensors &expected) {
  TensorError worst;
  double sum = 0, most = -1;
  for (const auto &[name, tensor] : expected) {
    double distance = squaredDistance(got, name, tensor);
    sum += distance;
    if (distance > most) {
      most = distance;
      worst.name = name;
    }
  }
  worst.value = quotient(std::sqrt(sum), normOf(expected));
  return worst;
}

// Returns the relative error of one tensor. `add` combines magnitudes of elements: their maximum,
// or the root of the sum of their squares.
template <class Add>
static double errorOf(const Tensor &got, const Tensor &expected, Add add) {
  if (got.shape != expected.shape)
    return kInfinite;
  double distance = 0, size = 0;
  for (size_t i = 0; i < expected.data.size(); ++i) {
    double a = got.data[i], b = expected.data[i];
    bool same = a == b || (std::isnan(a) && std::isnan(b));
    if (!same && (!std::isfinite(a) || !std::isfinite(b)))
      return kInfinite;
    if (!same)
      distance = add(distance, std::abs(a - b));
    if (std::isfinite(b))
      size = add(size, std::abs(b));
  }
  return quotient(distance, size);
}

template <class Add>
static TensorError worstOf(const NamedTensors &got, const NamedTensors &expected, Add add) {
  TensorError worst;
  for (const auto &[name, tensor] : expected) {
    auto found = got.find(name);
    double error = found == got.end() ? kInfinite : errorOf(found->second, tensor, add);
    if (worst.name.empty() || error > worst.value)
      worst = {name, error};
  }
  return worst;
}

TensorError resultError(const NamedTensors &got, const NamedTensors &expected) {
  return worstOf(got, expected, [](double a, double b) { return std::max(a, b); });
}

TensorError resultDistance(const NamedTensors &got, const NamedTensors &expected) {
  return worstOf(got, expected, [](double a, double b) { return std::hypot(a, b); });
}

TensorError resultWithoutNumbers(const NamedTensors &results) {
  TensorError lost{"all outputs", 0};
  for (const auto &[name, tensor] : results) {
    bool isLost = tensor.size() > 0 && std::none_of(tensor.data.begin(), tensor.data.end(),
                                                    [](double x) { return std::isfinite(x); });
    if (isLost && lost.value++ == 0)
      lost.name = name;
  }
  return lost;
}

double lossError(const std::vector<double> &got, const std::vector<double> &expected) {
  if (got.size() != expected.size())
    return kInfinite;
  double worst = 0;
  for (size_t i = 0; i < got.size(); ++i)
    worst = std::max(worst, relativeError(got[i], expected[i]));
  return worst;
}

double outputError(const std::map<std::string, double> &got,
                   const std::map<std::string, double> &expected) {
  double worst = 0;
  for (const auto &[name, value] : expected) {
    auto found = got.find(name);
    worst = std::max(worst, found == got.end() ? kInfinite : relativeError(found->second, value));
  }
  return worst;
}

} // namespace llmc::verify
