// Rates of a machine: grids of products, fits of what instructions took, and their file.
#include "lib/calibrate/Fit.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

using namespace llmc;
using calibrate::Sample;
using cost::HostRates;
using cost::ProductGrid;
using simulate::Work;

namespace {

// Returns a grid of products that take `seconds(rows, columns, depth)`.
template <class F> ProductGrid gridOf(F seconds) {
  ProductGrid grid;
  grid.sizes = {16, 64, 256, 1024};
  for (double rows : grid.sizes)
    for (double columns : grid.sizes)
      for (double depth : grid.sizes)
        grid.seconds.push_back(seconds(rows, columns, depth));
  return grid;
}

TEST(ProductGrid, HasWhatWasMeasuredAndGoesOnInProportion) {
  ProductGrid grid = gridOf([](double m, double n, double k) { return 1e-6 + 2e-11 * m * n * k; });
  EXPECT_NEAR(grid.timeOf(64, 256, 1024), 1e-6 + 2e-11 * 64 * 256 * 1024, 1e-12);
  EXPECT_NEAR(grid.timeOf(16, 16, 16), 1e-6 + 2e-11 * 4096, 1e-12);
  EXPECT_NEAR(grid.timeOf(4096, 1024, 1024), 4 * grid.timeOf(1024, 1024, 1024), 1e-9);
  EXPECT_NEAR(grid.timeOf(1, 64, 64), grid.timeOf(16, 64, 64), 1e-12); // no product is faster than the least one
  // Interpolates what is a power of the sizes exactly.
  ProductGrid power = gridOf([](double m, double n, double k) { return 1e-9 * m * std::sqrt(n) * k; });
  EXPECT_NEAR(power.timeOf(100, 300, 500), 1e-9 * 100 * std::sqrt(300.0) * 500, 1e-9);
}

TEST(ProductGrid, GrowsWithEverySize) {
  ProductGrid grid = gridOf([](double m, double n, double k) { return 1e-6 + 2e-11 * m * n * k; });
  std::minstd_rand draw(1);
  for (int i = 0; i < 500; ++i) {
    double m = 1 + draw() % 3000, n = 1 + draw() % 3000, k = 1 + draw() % 3000;
    EXPECT_LE(grid.timeOf(m, n, k), grid.timeOf(m * 1.5, n, k) * (1 + 1e-12));
    EXPECT_LE(grid.timeOf(m, n, k), grid.timeOf(m, n, k * 1.5) * (1 + 1e-12));
  }
}

TEST(Fit, FindsCoefficientsAndNoneBelowZero) {
  std::minstd_rand draw(3);
  std::vector<std::vector<double>> rows;
  std::vector<double> targets, weights;
  for (int i = 0; i < 50; ++i) {
    double x = draw() % 1000, y = draw() % 1000;
    rows.push_back({1, x, 1e9 * y});
    targets.push_back(5 + 0.25 * x);
    weights.push_back(1 + draw() % 3);
  }
  std::vector<double> found = calibrate::fitNonNegative(rows, targets, weights);
  EXPECT_NEAR(found[0], 5, 1e-6);
  EXPECT_NEAR(found[1], 0.25, 1e-9);
  EXPECT_NEAR(found[2], 0, 1e-12);
  for (double &target : targets)
    target = -target;
  for (double value : calibrate::fitNonNegative(rows, targets, weights))
    EXPECT_GE(value, 0);
}

// Draws the work of an instruction of each kind.
Work drawWork(std::minstd_rand &draw) {
  Work work;
  auto size = [&] { return double(1 + draw() % 100000); };
  switch (draw() % 5) {
  case 0:
    work.kind = Work::Launch;
    work.isShared = draw() % 2;
    (draw() % 2 ? work.nearBytes : work.farBytes) = 100 * size();
    if (draw() % 4 == 0)
      work.attentionFlops = 1000 * size();
    else
      work.instructions = 10 * size();
    break;
  case 1:
    work.kind = draw() % 2 ? Work::Product : Work::RoutedProduct;
    work.product = "float32 nn";
    work.batch = 1 + draw() % 8;
    work.rows = 1 + draw() % 500, work.columns = 1 + draw() % 500, work.depth = 1 + draw() % 500;
    work.bytes = size();
    break;
  default:
    work.kind = Work::Kind(Work::Copy + draw() % 3);
    work.bytes = 100 * size();
  }
  return work;
}

TEST(Fit, FindsTheRatesOfAMachine) {
  HostRates truth;
  truth.launch = 3e-7, truth.shared = 4e-6, truth.instruction = 2e-10, truth.nearByte = 1e-11, truth.farByte = 5e-11;
  truth.attentionFlop = 1e-11, truth.copy = 1e-7, truth.copyByte = 4e-11, truth.collective = 2e-6,
  truth.collectiveByte = 5e-11, truth.message = 3e-6, truth.messageByte = 6e-11, truth.product = 1e-6,
  truth.productScale = 1.1, truth.routedExpert = 1e-6, truth.routedByte = 2e-11,
  truth.routedScale = 1.2;
  truth.products["float32 nn"] = gridOf([](double m, double n, double k) { return 1e-6 + 2e-11 * m * n * k; });
  std::minstd_rand draw(5);
  std::vector<Sample> samples;
  for (int i = 0; i < 2000; ++i) {
    Work work = drawWork(draw);
    samples.push_back({work, simulate::timeOf(work, truth), double(1 + draw() % 9)});
  }
  HostRates found;
  found.products = truth.products;
  calibrate::fitRates(samples, found);
  for (const Sample &sample : samples)
    EXPECT_NEAR(simulate::timeOf(sample.work, found) / sample.seconds, 1, 0.01) << "kind " << int(sample.work.kind);
}

TEST(Fit, LeavesNoProductFree) {
  HostRates rates;
  rates.products["f32 nn"] = gridOf([](double m, double n, double k) { return 2e-11 * m * n * k; });
  calibrate::fitRates({}, rates);
  EXPECT_NEAR(rates.ownFlop, 2e-11, 1e-13); // twice the library's
  HostRates none;
  calibrate::fitRates({}, none);
  EXPECT_GT(none.ownFlop, 0);
}

TEST(Host, FilesKeepWhatWasMeasured) {
  cost::HostMachine host;
  host.kernels = "avx2", host.cores = 3, host.issue = 1e-7, host.step = 1e-4;
  host.rates.resize(2);
  host.rates[0].threads = 1, host.rates[0].launch = 2e-7;
  host.rates[1].threads = 3, host.rates[1].processBytes = 1e7;
  host.rates[0].ownFlop = host.rates[1].ownFlop = 1e-11;
  host.rates[1].products["float32 tn"] = gridOf([](double m, double, double) { return m; });
  std::vector<std::string> problems;
  support::Json json = support::Json::parse(support::jsonText(cost::hostJson(host)));
  cost::HostMachine read = cost::readHost(json, problems);
  EXPECT_TRUE(problems.empty()) << problems[0];
  EXPECT_EQ(support::jsonText(cost::hostJson(read)), support::jsonText(cost::hostJson(host)));
  EXPECT_EQ(read.of(2).threads, 1u);
  EXPECT_EQ(read.of(8).threads, 3u);
}

TEST(Host, RefusesWhatItCannotMean) {
  cost::HostMachine host;
  host.kernels = "avx2", host.cores = 2;
  host.rates.resize(1);
  host.rates[0].ownFlop = 1e-11;
  host.rates[0].products["float32 nn"] = gridOf([](double m, double, double) { return m; });
  const support::Json good = support::Json::parse(support::jsonText(cost::hostJson(host)));
  auto problemsOf = [&](auto change) {
    support::Json json = good;
    change(json);
    std::vector<std::string> problems;
    cost::readHost(json, problems);
    std::string all;
    for (const std::string &problem : problems)
      all += problem + "\n";
    return all;
  };
  auto expect = [&](const char *words, auto change) {
    EXPECT_NE(problemsOf(change).find(words), std::string::npos) << problemsOf(change);
  };
  using J = support::Json;
  EXPECT_EQ(problemsOf([](J &) {}), "");
  expect("host.cores", [](J &j) { j["cores"] = "two"; });
  expect("host.kernels", [](J &j) { j["kernels"] = "sse"; });
  expect("host.rates", [](J &j) { j["rates"] = J::array(); });
  expect("host.rates[0]", [](J &j) { j["rates"][0] = 3; });
  expect("host.rates[0].launch_s", [](J &j) { j["rates"][0]["launch_s"] = -1; });
  expect("host.rates[0].launches", [](J &j) { j["rates"][0]["launches"] = 1; });
  expect("products without a grid would take no time", [](J &j) { j["rates"][0]["own_flop_s"] = 0; });
  expect("ascending numbers are valid", [](J &j) { j["rates"].push_back(j["rates"][0]); });
  expect("host.rates[0].threads", [](J &j) { j["rates"][0]["threads"] = 0; });
  expect("host.rates[0].products.float32 nn", [](J &j) { j["rates"][0]["products"]["float32 nn"]["seconds"].erase(0); });
  expect("no list of numbers above 0", [](J &j) { j["rates"][0]["products"]["float32 nn"]["sizes"] = {16, -3}; });
  expect("2 to 100 ascending", [](J &j) { j["rates"][0]["products"]["float32 nn"]["sizes"] = {64, 16, 256, 1024}; });
}

} // namespace
