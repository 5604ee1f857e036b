// Values of the ops of experts against loops, sorts and compositions of other ops.
#include "Formulas.h"

#include "llvm/Support/FormatVariadic.h"
#include <algorithm>
#include <cmath>
#include <numeric>

using namespace mlir;

namespace llmc::graph::test {

// Returns the numbers of the values, best first; a value that is none comes last.
static std::vector<size_t> sorted(const std::vector<double> &values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  auto isBetter = [&](size_t a, size_t b) {
    return std::isnan(values[b]) ? !std::isnan(values[a]) : values[a] > values[b];
  };
  std::stable_sort(order.begin(), order.end(), isBetter);
  return order;
}

// Chooses experts of rows of eight by sorting them, in groups of two by the sum of `terms` of a group.
static std::vector<double> chosen(const Tensor &scores, const double *bias, size_t kept, size_t terms) {
  std::vector<double> routes;
  for (size_t start = 0; start < scores.data.size(); start += 8) {
    std::vector<double> row(scores.data.begin() + start, scores.data.begin() + start + 8), sums;
    for (size_t e = 0; bias && e < 8; ++e)
      row[e] += bias[e];
    for (size_t g = 0; g < 8; g += 2)
      sums.push_back(terms == 2 ? row[g] + row[g + 1] : std::max(row[g], row[g + 1]));
    std::vector<size_t> groups = sorted(sums);
    groups.resize(kept);
    size_t found = 0;
    for (size_t e : sorted(row))
      if (llvm::is_contained(groups, e / 2) && found++ < 3)
        routes.push_back(e);
  }
  return routes;
}

static std::vector<Formula> routeFormulas() {
  // Scores of few values, so that some are equal.
  Argument scores{Argument::Fraction, {2, 5, 8}}, bias{Argument::Fraction, {8}};
  return {
      {"route", {scores}, R"(func.func @f(%x: tensor<2x5x8xf64>) -> tensor<2x5x3xi64> {
          %r = graph.route %x : (tensor<2x5x8xf64>) -> tensor<2x5x3xi64>
          return %r : tensor<2x5x3xi64> })",
       [](ArrayRef<Tensor> in) { return chosen(in[0], nullptr, 4, 1); }},
      {"biased route", {scores, bias}, R"(func.func @f(%x: tensor<2x5x8xf64>, %b: tensor<8xf64>) -> tensor<2x5x3xi64> {
          %r = graph.route %x, %b : (tensor<2x5x8xf64>, tensor<8xf64>) -> tensor<2x5x3xi64>
          return %r : tensor<2x5x3xi64> })",
       [](ArrayRef<Tensor> in) { return chosen(in[0], in[1].data.data(), 4, 1); }},
      {"route to groups by their best", {scores}, R"(func.func @f(%x: tensor<2x5x8xf64>) -> tensor<2x5x3xi64> {
          %r = graph.route %x {groups = 4, kept_groups = 2} : (tensor<2x5x8xf64>) -> tensor<2x5x3xi64>
          return %r : tensor<2x5x3xi64> })",
       [](ArrayRef<Tensor> in) { return chosen(in[0], nullptr, 2, 1); }},
      {"route to groups by two", {scores, bias}, R"(func.func @f(%x: tensor<2x5x8xf64>, %b: tensor<8xf64>) -> tensor<2x5x3xi64> {
          %r = graph.route %x, %b {groups = 4, kept_groups = 3, group_terms = 2} : (tensor<2x5x8xf64>, tensor<8xf64>) -> tensor<2x5x3xi64>
          return %r : tensor<2x5x3xi64> })",
       [](ArrayRef<Tensor> in) { return chosen(in[0], in[1].data.data(), 3, 2); }},
      {"route of equal scores and of no numbers", {}, R"(func.func @f() -> tensor<1x6xi64> {
          %x = graph.constant dense<[[1.0, 0x7FF8000000000000, 2.0, 2.0, 0xFFF0000000000000, 1.0]]> : tensor<1x6xf64>
          %r = graph.route %x : (tensor<1x6xf64>) -> tensor<1x6xi64>
          return %r : tensor<1x6xi64> })",
       [](ArrayRef<Tensor>) { return std::vector{2., 3., 0., 5., 4., 1.}; }},
      {"group of no numbers", {}, R"(func.func @f() -> tensor<2xi64> {
          %x = graph.constant dense<[0x7FF8000000000000, 5.0, -1.0, 1.0, 1.0, -1.0]> : tensor<6xf64>
          %r = graph.route %x {groups = 3, kept_groups = 1, group_terms = 2} : (tensor<6xf64>) -> tensor<2xi64>
          return %r : tensor<2xi64> })",
       [](ArrayRef<Tensor>) { return std::vector{3., 2.}; }},
      {"limit_routes", {}, R"(func.func @f() -> tensor<2x3x2xi64> {
          %r = graph.constant dense<[[[0, 1], [0, 1], [1, 0]], [[7, 0], [-3, 0], [0, 1]]]> : tensor<2x3x2xi64>
          %y = graph.limit_routes %r {capacity = 2, experts = 2} : (tensor<2x3x2xi64>) -> tensor<2x3x2xi64>
          return %y : tensor<2x3x2xi64> })",
       [](ArrayRef<Tensor>) { return std::vector{0., 1., 0., 1., -1., -1., 7., 0., -3., 0., -1., 1.}; }}};
}

// Compares products with gathered matrices, whose rows out of range are zeros, and with a scattered sum.
static std::vector<Formula> productFormulas() {
  Argument rows{Argument::Any, {3, 2, 4}}, shared{Argument::Any, {3, 4}}, w{Argument::Any, {5, 4, 3}},
      turned{Argument::Any, {5, 3, 4}}, routes{Argument::Ids, {3, 2}, 5}, offset{Argument::Ids, {}, 1},
      y{Argument::Any, {3, 2, 3}}, sharedY{Argument::Any, {3, 3}};
  return {
      {"grouped_matmul", {rows, w, routes, offset}, R"(
        func.func @f(%x: tensor<3x2x4xf64>, %w: tensor<5x4x3xf64>, %r: tensor<3x2xi64>, %o: tensor<i64>) -> tensor<3x2x3xf64> {
          %y = graph.grouped_matmul %x, %w, %r, %o : (tensor<3x2x4xf64>, tensor<5x4x3xf64>, tensor<3x2xi64>, tensor<i64>) -> tensor<3x2x3xf64>
          return %y : tensor<3x2x3xf64> }
        func.func @g(%x: tensor<3x2x4xf64>, %w: tensor<5x4x3xf64>, %r: tensor<3x2xi64>, %o: tensor<i64>) -> tensor<3x2x3xf64> {
          %m = graph.gather %w, %r, %o : (tensor<5x4x3xf64>, tensor<3x2xi64>, tensor<i64>) -> tensor<3x2x4x3xf64>
          %y = graph.matmul "scd,scdf->scf" %x, %m : (tensor<3x2x4xf64>, tensor<3x2x4x3xf64>) -> tensor<3x2x3xf64>
          return %y : tensor<3x2x3xf64> })", nullptr},
      {"transposed grouped_matmul of shared rows", {shared, turned, routes}, R"(
        func.func @f(%x: tensor<3x4xf64>, %w: tensor<5x3x4xf64>, %r: tensor<3x2xi64>) -> tensor<3x2x3xf64> {
          %y = graph.grouped_matmul %x, %w, %r {transposed} : (tensor<3x4xf64>, tensor<5x3x4xf64>, tensor<3x2xi64>) -> tensor<3x2x3xf64>
          return %y : tensor<3x2x3xf64> }
        func.func @g(%x: tensor<3x4xf64>, %w: tensor<5x3x4xf64>, %r: tensor<3x2xi64>) -> tensor<3x2x3xf64> {
          %m = graph.gather %w, %r : (tensor<5x3x4xf64>, tensor<3x2xi64>) -> tensor<3x2x3x4xf64>
          %y = graph.matmul "sd,scfd->scf" %x, %m : (tensor<3x4xf64>, tensor<3x2x3x4xf64>) -> tensor<3x2x3xf64>
          return %y : tensor<3x2x3xf64> })", nullptr},
      {"grouped_outer", {rows, y, routes, offset}, R"(
        func.func @f(%x: tensor<3x2x4xf64>, %y: tensor<3x2x3xf64>, %r: tensor<3x2xi64>, %o: tensor<i64>) -> tensor<5x4x3xf64> {
          %g = graph.grouped_outer %x, %y, %r, %o : (tensor<3x2x4xf64>, tensor<3x2x3xf64>, tensor<3x2xi64>, tensor<i64>) -> tensor<5x4x3xf64>
          return %g : tensor<5x4x3xf64> }
        func.func @g(%x: tensor<3x2x4xf64>, %y: tensor<3x2x3xf64>, %r: tensor<3x2xi64>, %o: tensor<i64>) -> tensor<5x4x3xf64> {
          %p = graph.matmul "scm,scn->scmn" %x, %y : (tensor<3x2x4xf64>, tensor<3x2x3xf64>) -> tensor<3x2x4x3xf64>
          %g = graph.scatter_add %r, %p, %o : (tensor<3x2xi64>, tensor<3x2x4x3xf64>, tensor<i64>) -> tensor<5x4x3xf64>
          return %g : tensor<5x4x3xf64> })", nullptr},
      {"grouped_outer of shared left rows", {shared, y, routes}, R"(
        func.func @f(%x: tensor<3x4xf64>, %y: tensor<3x2x3xf64>, %r: tensor<3x2xi64>) -> tensor<5x4x3xf64> {
          %g = graph.grouped_outer %x, %y, %r : (tensor<3x4xf64>, tensor<3x2x3xf64>, tensor<3x2xi64>) -> tensor<5x4x3xf64>
          return %g : tensor<5x4x3xf64> }
        func.func @g(%x: tensor<3x4xf64>, %y: tensor<3x2x3xf64>, %r: tensor<3x2xi64>) -> tensor<5x4x3xf64> {
          %p = graph.matmul "sm,scn->scmn" %x, %y : (tensor<3x4xf64>, tensor<3x2x3xf64>) -> tensor<3x2x4x3xf64>
          %g = graph.scatter_add %r, %p : (tensor<3x2xi64>, tensor<3x2x4x3xf64>) -> tensor<5x4x3xf64>
          return %g : tensor<5x4x3xf64> })", nullptr},
      {"grouped_outer of shared right rows", {rows, sharedY, routes}, R"(
        func.func @f(%x: tensor<3x2x4xf64>, %y: tensor<3x3xf64>, %r: tensor<3x2xi64>) -> tensor<5x4x3xf64> {
          %g = graph.grouped_outer %x, %y, %r : (tensor<3x2x4xf64>, tensor<3x3xf64>, tensor<3x2xi64>) -> tensor<5x4x3xf64>
          return %g : tensor<5x4x3xf64> }
        func.func @g(%x: tensor<3x2x4xf64>, %y: tensor<3x3xf64>, %r: tensor<3x2xi64>) -> tensor<5x4x3xf64> {
          %p = graph.matmul "scm,sn->scmn" %x, %y : (tensor<3x2x4xf64>, tensor<3x3xf64>) -> tensor<3x2x4x3xf64>
          %g = graph.scatter_add %r, %p : (tensor<3x2xi64>, tensor<3x2x4x3xf64>) -> tensor<5x4x3xf64>
          return %g : tensor<5x4x3xf64> })", nullptr}};
}

// Returns a function that returns result `i` of an op with three results, and keeps it in `text`.
static const char *resultOf(StringRef op, StringRef attributes, std::vector<std::string> types, size_t i,
                            std::string &text) {
  if (!text.empty())
    return text.c_str();
  std::string operands, operandTypes, parameters;
  for (size_t k = 0; k + 3 < types.size(); ++k) {
    std::string comma = k ? ", " : "";
    operands += comma + "%a" + std::to_string(k), operandTypes += comma + types[k];
    parameters += comma + "%a" + std::to_string(k) + ": " + types[k];
  }
  auto results = ArrayRef(types).take_back(3);
  text = llvm::formatv("func.func @f({0}) -> {1} {{ %r:3 = graph.{2} {3} {4} : ({5}) -> ({6}, {7}, {8})\n"
                       "  return %r#{9} : {1} }",
                       parameters, results[i], op, operands, attributes, operandTypes, results[0], results[1],
                       results[2], i);
  return text.c_str();
}

// Sorts routes to six experts in three parts by a stable sort.
static std::vector<double> sortedRoutes(const Tensor &routes, size_t result) {
  std::vector<size_t> order;
  std::vector<double> places(routes.size(), -1), inOrder(routes.size(), -1), counts(3, 0);
  for (int64_t i = 0; i < routes.size(); ++i)
    if (routes.data[i] >= 0 && routes.data[i] < 6)
      order.push_back(i);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return routes.data[a] < routes.data[b]; });
  for (auto [place, i] : llvm::enumerate(order)) {
    places[i] = place, inOrder[place] = routes.data[i];
    ++counts[static_cast<size_t>(routes.data[i]) / 2];
  }
  return result == 0 ? places : result == 1 ? inOrder : counts;
}

static std::vector<Formula> rankFormulas() {
  static std::string texts[6];
  std::string routes = "tensor<2x3x2xi64>", slots = "tensor<3x2xi64>";
  std::vector<Formula> all;
  for (size_t i = 0; i < 3; ++i)
    all.push_back({"sort_routes", {{Argument::Ids, {2, 3, 2}, 6}},
                   resultOf("sort_routes", "{experts = 6}", {routes, routes, routes, "tensor<3xi64>"}, i, texts[i]),
                   [=](ArrayRef<Tensor> in) { return sortedRoutes(in[0], i); }});
  // Draws up to five rows of each of three ranks; six of all have room.
  for (size_t i = 0; i < 3; ++i)
    all.push_back({"arrived_routes", {{Argument::Ids, {3, 2}, 9}, {Argument::Ids, {3}, 4}},
                   resultOf("arrived_routes", "", {slots, "tensor<3xi64>", slots, slots, "tensor<3xf64>"}, i,
                            texts[3 + i]),
                   [=](ArrayRef<Tensor> in) {
                     std::vector<double> arrived, sources;
                     for (double source : {0., 1., 2.})
                       sources.resize(sources.size() + std::max(0., in[1].data[source]), source);
                     std::vector<double> lost{std::max(0., double(sources.size()) - 6), 0, 0};
                     sources.resize(6, -1);
                     for (size_t k = 0; k < 6; ++k)
                       arrived.push_back(sources[k] < 0 ? -1 : in[0].data[k]);
                     return i == 0 ? arrived : i == 1 ? sources : lost;
                   }});
  all.push_back({"count_sources", {{Argument::Ids, {3, 2}, 3}}, R"(func.func @f(%s: tensor<3x2xi64>) -> tensor<3xi64> {
      %n = graph.count_sources %s : (tensor<3x2xi64>) -> tensor<3xi64>
      return %n : tensor<3xi64> })",
                 [](ArrayRef<Tensor> in) {
                   std::vector<double> counts;
                   for (double i : {0., 1., 2.})
                     counts.push_back(llvm::count(in[0].data, i));
                   return counts;
                 }});
  return all;
}

static std::vector<Formula> exchangeFormulas() {
  Argument rows{Argument::Any, {3, 2, 1}}, shared{Argument::Any, {3, 1}},
      places{Argument::Ids, {3, 2}, 6, false, /*distinct=*/true}, routes{Argument::Ids, {3, 2}, 4};
  return {
      {"pack_rows of shared rows", {shared, places}, R"(func.func @f(%x: tensor<3x1xf64>, %p: tensor<3x2xi64>) -> tensor<3x2x1xf64> {
          %y = graph.pack_rows %x, %p : (tensor<3x1xf64>, tensor<3x2xi64>) -> tensor<3x2x1xf64>
          return %y : tensor<3x2x1xf64> })",
       [](ArrayRef<Tensor> in) {
         std::vector<double> y(6, 0);
         for (size_t i = 0; i < 6; ++i)
           if (double place = in[1].data[i]; place >= 0 && place < 6)
             y[place] = in[0].data[i / 2];
         return y;
       }},
      {"unpack_rows of what was packed", {rows, places}, R"(func.func @f(%x: tensor<3x2x1xf64>, %p: tensor<3x2xi64>) -> tensor<3x2x1xf64> {
          %z = graph.pack_rows %x, %p : (tensor<3x2x1xf64>, tensor<3x2xi64>) -> tensor<3x2x1xf64>
          %y = graph.unpack_rows %z, %p : (tensor<3x2x1xf64>, tensor<3x2xi64>) -> tensor<3x2x1xf64>
          return %y : tensor<3x2x1xf64> })",
       [](ArrayRef<Tensor> in) {
         std::vector<double> y(6, 0);
         for (size_t i = 0; i < 6; ++i)
           y[i] = in[1].data[i] >= 0 && in[1].data[i] < 6 ? in[0].data[i] : 0;
         return y;
       }},
      {"exchange_routes", {routes}, R"(func.func @f(%r: tensor<3x2xi64>) -> tensor<3x3xi64> {
          %a, %s, %n = graph.exchange_routes %r {experts = 4} : (tensor<3x2xi64>) -> (tensor<3x3xi64>, tensor<3x3xi64>, tensor<3xf64>)
          return %a : tensor<3x3xi64> })",
       [](ArrayRef<Tensor> in) {
         const auto &r = in[0].data;
         return std::vector{r[0], r[1], -1., r[2], r[3], -1., r[4], r[5], -1.};
       }},
      {"dispatch and collect", {rows, routes}, R"(func.func @f(%x: tensor<3x2x1xf64>, %r: tensor<3x2xi64>) -> tensor<3x2x1xf64> {
          %a, %s, %n = graph.exchange_routes %r {experts = 4} : (tensor<3x2xi64>) -> (tensor<3x5xi64>, tensor<3x5xi64>, tensor<3xf64>)
          %z = graph.dispatch %x, %r, %s {experts = 4} : (tensor<3x2x1xf64>, tensor<3x2xi64>, tensor<3x5xi64>) -> tensor<3x5x1xf64>
          %y = graph.collect %z, %r, %s {experts = 4} : (tensor<3x5x1xf64>, tensor<3x2xi64>, tensor<3x5xi64>) -> tensor<3x2x1xf64>
          return %y : tensor<3x2x1xf64> })",
       [](ArrayRef<Tensor> in) {
         std::vector<double> y;
         for (auto [x, route] : llvm::zip(in[0].data, in[1].data))
           y.push_back(route < 0 ? 0 : x);
         return y;
       }}};
}

std::vector<Formula> expertFormulas() {
  std::vector<Formula> all = routeFormulas();
  for (auto list : {productFormulas, rankFormulas, exchangeFormulas})
    for (Formula &formula : list())
      all.push_back(std::move(formula));
  return all;
}

} // namespace llmc::graph::test
