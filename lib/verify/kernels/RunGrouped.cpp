// Runs products of routed rows at their sizes, by the library and by the plan's own kernel, with routes that
// are drawn over the groups.
#include "lib/support/Error.h"
#include "lib/verify/kernels/ProductNumbers.h"
#include "lib/verify/kernels/RunLaunch.h"

#include <algorithm>
#include <array>
#include <cfloat>
#include <cmath>
#include <random>
#include <set>

namespace llmc::verify {

using graph::Bounded;
using planfile::DType;
using planfile::MatmulT;
using planfile::RoutingT;

constexpr double kGroupedFlops = 2e8;
constexpr int64_t kFirst = 3; // number of the first group

// Draws routes: as many as cost kGroupedFlops have a group, a third of them the first one, so that it has
// rows of several pieces.
static std::vector<int64_t> drawRoutes(const MatmulT &m, int64_t rows, uint64_t stream) {
  bool byRows = m.routing->form == planfile::RoutingForm::Rows;
  double each = 2.0 * double(m.n) * double(byRows ? m.k : m.m);
  double share = std::min(0.9, kGroupedFlops / each / double(rows));
  std::mt19937_64 random(stream);
  auto below = [&](double part) { return double(random() >> 11) * 0x1p-53 < part; };
  std::vector<int64_t> routes;
  for (int64_t i = 0; i < rows; ++i) {
    int64_t group = below(1.0 / 3) ? 0 : int64_t(random() % uint64_t(m.batch));
    int64_t none = random() % 2 ? -1 : kFirst + m.batch;
    routes.push_back(below(share) ? kFirst + group : none);
  }
  return routes;
}

namespace {

// Compares elements of C, one after the other, with what the numbers of A and B give.
class GroupedResult {
public:
  GroupedResult(const MatmulT &m, std::vector<float> a, std::vector<float> b, std::vector<int64_t> routes,
                bool areEqual)
      : m(m), routing(*m.routing), a(std::move(a)), b(std::move(b)), routes(std::move(routes)),
        areEqual(areEqual) {}

  void compare(const std::byte *c, const std::vector<float> &before, std::string_view by,
               CaseResult &finding) const {
    if (routing.form == planfile::RoutingForm::Rows)
      compareRows(c, before, by, finding);
    else
      compareSums(c, before, by, finding);
  }

private:
  int64_t groupOf(int64_t row) const {
    int64_t group = routes[row] - kFirst;
    return group < 0 || group >= m.batch ? -1 : group;
  }

  void compareRows(const std::byte *c, const std::vector<float> &before, std::string_view by,
                   CaseResult &finding) const {
    std::set<int64_t> rows;
    for (int64_t row = 0; row < m.m && rows.size() < 24; ++row)
      if (groupOf(row) >= 0 || row % 7 == 0)
        rows.insert(row);
    for (int64_t row = m.m - 1; row >= 0 && rows.size() < 32; --row)
      rows.insert(row);
    for (int64_t row : rows)
      for (int64_t j : columnsOf(m.n)) {
        int64_t group = groupOf(row), at = row * m.c_strides[1] + j;
        const float *x = a.data() + row / routing.a_share * m.a_strides[1];
        const float *y = b.data() + std::max<int64_t>(group, 0) * m.b_strides[0] + j * m.b_strides[2];
        judge(exactSum(x, 1, y, m.b_strides[1], group < 0 ? 0 : m.k, 0, areEqual), c, at, by, finding);
      }
    (void)before;
  }

  void compareSums(const std::byte *c, const std::vector<float> &before, std::string_view by,
                   CaseResult &finding) const {
    for (int64_t group : std::set<int64_t>{0, m.batch / 2, m.batch - 1})
      for (int64_t i : std::set<int64_t>{0, m.m / 2, m.m - 1})
        for (int64_t j : columnsOf(m.n)) {
          std::vector<float> x, y;
          for (int64_t row = 0; row < m.k; ++row)
            if (groupOf(row) == group) {
              x.push_back(a[i + row / routing.a_share * m.a_strides[2]]);
              y.push_back(b[row / routing.b_share * m.b_strides[1] + j]);
            }
          int64_t at = group * m.c_strides[0] + i * m.c_strides[1] + j;
          judge(exactSum(x.data(), 1, y.data(), 1, int64_t(x.size()), before.empty() ? 0 : double(before[at]),
                         areEqual),
                c, at, by, finding);
        }
  }

  void judge(Bounded right, const std::byte *c, int64_t at, std::string_view by, CaseResult &finding) const {
    double got = readNumber(c, m.c_type, at);
    double ratio = errorRatio(got, right, double(FLT_MIN), storedFloat(m.c_type));
    finding.judged |= ratio >= 0;
    if (ratio <= finding.ratio)
      return;
    finding.ratio = ratio;
    finding.problem = support::text(by, ": element ", at, " is ", got, ", expected ", right.value, " +- ",
                                    right.radius());
  }

  const MatmulT &m;
  const RoutingT &routing;
  std::vector<float> a, b;
  std::vector<int64_t> routes;
  bool areEqual;
};

} // namespace

// Returns the bytes of a matrix from its first to its last element.
static uint64_t bytesOf(const std::vector<int64_t> &strides, std::array<int64_t, 3> dims, DType type) {
  int64_t last = 0;
  for (size_t i = 0; i < dims.size(); ++i)
    last += strides[i] * (dims[i] - 1);
  return uint64_t(last + 1) * planfile::byteSize(type);
}

MatmulT ProductCase::withFewerGroups(const MatmulT &matmul) {
  constexpr int64_t kMostElements = 1 << 24, kLeastGroups = 3, kLeastRows = 1024;
  MatmulT few = matmul;
  const RoutingT &routing = *few.routing;
  bool byRows = routing.form == planfile::RoutingForm::Rows;
  few.batch = std::clamp(kMostElements / ((byRows ? few.k : few.m) * few.n), std::min(kLeastGroups, few.batch),
                         few.batch);
  int64_t &rows = byRows ? few.m : few.k, all = rows;
  rows = std::clamp(kMostElements / ((byRows ? few.k : few.m) + few.n), std::min(kLeastRows, all), all);
  int64_t share = std::max<int64_t>(routing.a_share, routing.b_share);
  if (rows < all)
    rows -= rows % share; // whole tokens
  auto tokens = [&](int64_t share) { return (rows + share - 1) / share; };
  auto fit = [](planfile::BufferRefT &buffer, uint64_t bytes) { buffer.size = std::min(buffer.size, bytes); };
  using Dims = std::array<int64_t, 3>;
  fit(*few.a, bytesOf(few.a_strides, byRows ? Dims{1, tokens(routing.a_share), few.k}
                                            : Dims{1, few.m, tokens(routing.a_share)}, few.a_type));
  fit(*few.b, bytesOf(few.b_strides, byRows ? Dims{few.batch, few.k, few.n}
                                            : Dims{1, tokens(routing.b_share), few.n}, few.b_type));
  fit(*few.c, bytesOf(few.c_strides, byRows ? Dims{1, few.m, few.n} : Dims{few.batch, few.m, few.n}, few.c_type));
  return few;
}

CaseResult ProductCase::runGrouped(const CaseContext &setting, ScratchMapping &arena, NumberRegime regime,
                                   unsigned thread, uint64_t stream) const {
  const MatmulT &m = *few;
  const std::array types{m.a_type, m.b_type, m.c_type};
  std::vector<OperandBytes> extents;
  for (int i = 0; const auto *buffer : {m.a.get(), m.b.get(), m.c.get()}) {
    extents.push_back({buffer->offset, buffer->size, planfile::byteSize(types[i]), i == 2, i != 2 || m.accumulate});
    ++i;
  }
  OperandMemory memory(arena, extents);
  auto countOf = [&](int i) { return extents[i].size / extents[i].bytesOfElement; };
  auto draw = [&](int i) {
    std::vector<float> numbers(countOf(i));
    setting.noise.drawFloats(int64_t(numbers.size()), regime, 1e4, stream * 64 + i, numbers.data());
    writeNumbers(numbers, types[i], memory[i]);
  };
  auto numbersOf = [&](int i) {
    std::vector<float> numbers(countOf(i));
    for (size_t at = 0; at < numbers.size(); ++at)
      numbers[at] = static_cast<float>(readNumber(memory[i], types[i], int64_t(at)));
    return numbers;
  };
  draw(0), draw(1); // which may share bytes
  bool byRows = m.routing->form == planfile::RoutingForm::Rows;
  std::vector<int64_t> routes = drawRoutes(m, byRows ? m.m : m.k, stream);
  GroupedResult right(m, numbersOf(0), numbersOf(1), routes, regime == NumberRegime::Equal);
  runtime::ThreadTeam alone(1);
  runtime::GroupedScratch scratch(1);
  CaseResult finding;
  for (runtime::GroupedProduct *way : {grouped.get(), groupedByKernel.get()}) {
    if (way == grouped.get() && !way->byLibrary())
      continue;
    memory.poison();
    std::vector<float> before;
    if (m.accumulate)
      draw(2), before = numbersOf(2);
    if (!way->run({memory[0], memory[1], memory[2], routes.data(), kFirst, setting.kernels[m.fallback], thread},
                  alone, scratch))
      return {INFINITY, "the library failed", true};
    right.compare(memory[2], before, way->byLibrary() ? "the library" : "the plan's kernel", finding);
  }
  if (memory.isGuardOverwritten())
    finding = {INFINITY, "writes beside its result", true};
  return finding;
}

} // namespace llmc::verify
