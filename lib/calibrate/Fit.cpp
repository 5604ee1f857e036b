#include "lib/calibrate/Fit.h"

#include <algorithm>
#include <cmath>
#include <functional>

using namespace llmc;
using namespace llmc::calibrate;
using cost::HostRates;
using simulate::Work;

std::vector<double> calibrate::fitNonNegative(const std::vector<std::vector<double>> &rows,
                                              const std::vector<double> &targets, const std::vector<double> &weights) {
  const size_t n = rows.empty() ? 0 : rows[0].size();
  // Scales columns, whose units differ by orders of magnitude.
  std::vector<double> scale(n, 0), x(n, 0), gradient(n, 0);
  for (const auto &row : rows)
    for (size_t j = 0; j < n; ++j)
      scale[j] = std::max(scale[j], std::abs(row[j]));
  std::vector<std::vector<double>> normal(n, std::vector<double>(n, 0));
  for (size_t i = 0; i < rows.size(); ++i)
    for (size_t j = 0; j < n; ++j) {
      if (scale[j] == 0)
        continue;
      double left = weights[i] * rows[i][j] / scale[j];
      gradient[j] += left * targets[i];
      for (size_t k = 0; k < n; ++k)
        if (scale[k] > 0)
          normal[j][k] += left * rows[i][k] / scale[k];
    }
  for (int round = 0; round < 20000; ++round)
    for (size_t j = 0; j < n; ++j) {
      if (normal[j][j] <= 0)
        continue;
      double rest = gradient[j];
      for (size_t k = 0; k < n; ++k)
        if (k != j)
          rest -= normal[j][k] * x[k];
      x[j] = std::max(0.0, rest / normal[j][j]);
    }
  for (size_t j = 0; j < n; ++j)
    if (scale[j] > 0)
      x[j] /= scale[j];
  return x;
}

namespace {

using Features = std::function<std::vector<double>(const Work &)>;

// Fits samples of one kind; `fields` are the coefficients of the features. Weighs each sample by its share of the
// time, and within that by its relative error.
void fit(const std::vector<Sample> &samples, Work::Kind kind, const std::vector<double *> &fields,
         const Features &features) {
  std::vector<std::vector<double>> rows;
  std::vector<double> targets, weights;
  for (const Sample &sample : samples)
    if (sample.work.kind == kind && sample.seconds > 0) {
      std::vector<double> row = features(sample.work);
      if (row.empty()) // has no features
        continue;
      rows.push_back(std::move(row));
      targets.push_back(sample.seconds);
      weights.push_back(sample.calls / sample.seconds);
    }
  if (rows.empty())
    return;
  std::vector<double> x = fitNonNegative(rows, targets, weights);
  for (size_t j = 0; j < fields.size(); ++j) {
    bool isSeen = std::any_of(rows.begin(), rows.end(), [&](const auto &row) { return row[j] != 0; });
    if (isSeen)
      *fields[j] = x[j];
  }
}

// Fits products of which the grid has a time.
void fitByGrid(const std::vector<Sample> &samples, Work::Kind kind, const HostRates &rates,
               const std::vector<double *> &fields,
               const std::function<std::vector<double>(const Work &, double grid)> &features) {
  fit(samples, kind, fields, [&](const Work &work) {
    return rates.products.count(work.product) ? features(work, simulate::gridTimeOf(work, rates)) : std::vector<double>();
  });
}

} // namespace

void calibrate::fitRates(const std::vector<Sample> &samples, HostRates &r) {
  fit(samples, Work::Launch,
      {&r.launch, &r.shared, &r.instruction, &r.nearByte, &r.farByte, &r.attentionFlop, &r.attentionGradFlop},
      [](const Work &w) {
        return std::vector<double>{1, double(w.isShared), w.instructions, w.nearBytes, w.farBytes, w.attentionFlops,
                                   w.attentionGradFlops};
      });
  auto ofBytes = [](const Work &w) { return std::vector<double>{1, w.bytes}; };
  fit(samples, Work::Copy, {&r.copy, &r.copyByte}, ofBytes);
  fit(samples, Work::Collective, {&r.collective, &r.collectiveByte}, ofBytes);
  fit(samples, Work::Message, {&r.message, &r.messageByte}, ofBytes);
  fit(samples, Work::OwnProduct, {&r.ownFlop}, [](const Work &w) { return std::vector<double>{w.flops}; });
  // Takes half of the library's rate where no product was computed so: our kernels reach that of float32, and nothing
  // may take no time.
  if (r.ownFlop <= 0) {
    constexpr double size = 256;
    auto grid = r.products.find("f32 nn");
    double library = grid == r.products.end() ? 1e-10 : grid->second.timeOf(size, size, size) / (2 * size * size * size);
    r.ownFlop = 2 * library;
  }
  fitByGrid(samples, Work::Product, r, {&r.product, &r.productScale},
            [](const Work &, double grid) { return std::vector<double>{1, grid}; });
  fitByGrid(samples, Work::RoutedProduct, r, {&r.routedExpert, &r.routedByte, &r.routedScale},
            [](const Work &w, double grid) { return std::vector<double>{w.batch, w.bytes, grid}; });
}
