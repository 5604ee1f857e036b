// Runs products of the plan: by the library with fewer rows, by the plan's own kernel on some
// rows.
#include "lib/support/Error.h"
#include "lib/verify/kernels/RunLaunch.h"

#include <algorithm>
#include <array>
#include <cfloat>
#include <cmath>
#include <set>

namespace llmc::verify {

using graph::Bounded;
using planfile::MatmulT;

constexpr double kLibraryFlops = 4e8, kKernelFlops = 2e8;
constexpr unsigned kThreads = 3;

static double flopsOf(const MatmulT &m) {
  return 2.0 * double(m.batch) * double(m.m) * double(m.n) * double(m.k);
}

// Returns the product with fewer rows but all of n, k and the strides; the last rows of a part
// end as they do in the plan.
static MatmulT withFewerRows(const MatmulT &matmul) {
  MatmulT few = matmul;
  constexpr int64_t kGrain = 16;
  if (double perMatrix = flopsOf(matmul) / double(matmul.batch); flopsOf(matmul) > kLibraryFlops)
    few.batch = std::clamp<int64_t>(int64_t(kLibraryFlops / perMatrix),
                                    std::min<int64_t>(matmul.batch, kThreads), matmul.batch);
  double perRow = flopsOf(few) / double(few.m);
  int64_t rows = std::max<int64_t>(int64_t(kLibraryFlops / perRow), 3 * kGrain);
  if (rows < few.m)
    few.m = rows / kGrain * kGrain + few.m % kGrain;
  return few;
}

ProductCase::ProductCase(const DistinctProduct &product, runtime::MatmulLibrary *library)
    : product(&product), few(withFewerRows(*product.matmul)) {
  if (library)
    parts = runtime::splitMatmul(*library, few, kThreads);
}

double ProductCase::seconds() const {
  return (kLibraryFlops + kKernelFlops) / 5e10 + double(product->matmul->b->size) / 2e9;
}

// Points to the matrices as they are laid out in memory.
struct ProductCase::Values {
  const MatmulT &m;
  const float *a, *b;
  float *c;
  bool areEqual;
  int64_t place(const std::vector<int64_t> &strides, int64_t batch, int64_t i, int64_t j) const {
    return batch * strides[0] + i * strides[1] + j * strides[2];
  }
};

// Selects a few columns: the ends, and where vectors and blocks of the library end.
static std::vector<int64_t> columnsOf(int64_t n) {
  std::set<int64_t> columns{0, n - 1};
  for (int64_t j : {int64_t(7), int64_t(8), int64_t(63), int64_t(64), n / 3, n / 2, n * 5 / 7,
                    n - 8, n - 9, n / 16 * 16, n / 16 * 16 - 1})
    if (j >= 0 && j < n)
      columns.insert(j);
  return {columns.begin(), columns.end()};
}

// Returns the exact sum and its error bound, as Bounded has them; `before` is what the product is
// added to. Roundings of equal terms are equal, so that they do not cancel.
static Bounded exact(const float *a, int64_t aStep, const float *b, int64_t bStep, int64_t k,
                     double before, bool areEqual) {
  double sum = before, magnitude = 0;
  for (int64_t i = 0; i < k; ++i) {
    double x = double(a[i * aStep]) * double(b[i * bStep]);
    sum += x;
    magnitude += std::fabs(x);
  }
  double error = (1 + (areEqual ? double(k) : std::sqrt(double(k)))) * magnitude +
                 std::fabs(before) + std::fabs(sum);
  return Bounded::rounded(sum, error, false, 0);
}

void ProductCase::compare(const Values &values, llvm::ArrayRef<int64_t> rows, const float *before,
                          std::string_view by, CaseResult &finding) const {
  const MatmulT &m = values.m;
  for (int64_t row : rows)
    for (int64_t j : columnsOf(m.n)) {
      int64_t batch = row / m.m, i = row % m.m, c = values.place(m.c_strides, batch, i, j);
      Bounded right = exact(values.a + values.place(m.a_strides, batch, i, 0), m.a_strides[2],
                            values.b + values.place(m.b_strides, batch, 0, j), m.b_strides[1], m.k,
                            before ? double(before[c]) : 0, values.areEqual);
      double ratio = errorRatio(values.c[c], right, double(FLT_MIN));
      finding.judged |= ratio >= 0;
      if (ratio <= finding.ratio)
        continue;
      finding.ratio = ratio;
      finding.problem =
          support::text(by, ": element (", batch, ", ", i, ", ", j, ") is ", values.c[c],
                        ", expected ", right.value, " +- ", right.radius());
    }
}

CaseResult ProductCase::run(const CaseContext &setting, ScratchMapping &arena, NumberRegime regime,
                            unsigned thread, uint64_t stream) const {
  const MatmulT &m = *product->matmul;
  std::vector<OperandBytes> extents;
  for (const auto *buffer : {&m.a, &m.b, &m.c})
    extents.push_back(
        {(*buffer)->offset, (*buffer)->size, 4, buffer == &m.c, buffer != &m.c || m.accumulate});
  OperandMemory memory(arena, extents);
  auto floats = [&](int i) { return reinterpret_cast<float *>(memory[i]); };
  auto draw = [&](int i) {
    setting.noise.drawFloats(int64_t(extents[i].size / 4), regime, 1e4, stream * 64 + i, floats(i));
  };
  draw(0), draw(1);
  CaseResult finding;
  Values values{m, floats(0), floats(1), floats(2), regime == NumberRegime::Equal};
  int64_t count = m.batch * m.m;
  // Keep what a result is added to: the comparison needs it afterwards.
  std::vector<float> before;
  auto begin = [&] {
    memory.poison();
    if (!m.accumulate)
      return;
    draw(2);
    before.assign(floats(2), floats(2) + extents[2].size / 4);
  };

  if (setting.library && !parts.empty()) {
    begin();
    for (const runtime::MatmulPart &part : parts)
      if (!setting.library->execute(part.id, thread, floats(part.swapped ? 1 : 0) + part.a,
                                    floats(part.swapped ? 0 : 1) + part.b, floats(2) + part.c))
        return {INFINITY, "the library failed", true};
    std::set<int64_t> rows;
    for (int64_t batch : {int64_t(0), few.batch - 1})
      for (int64_t i : {int64_t(0), int64_t(1), few.m / 3 / 16 * 16, few.m / 3, few.m / 2,
                        (few.m + 2) / 3 / 16 * 16 + 16, few.m - 2, few.m - 1})
        if (i >= 0 && i < few.m)
          rows.insert(batch * m.m + i);
    compare(values, std::vector<int64_t>(rows.begin(), rows.end()),
            m.accumulate ? before.data() : nullptr, "the library", finding);
  }

  begin();
  std::array<int64_t, 13> scalars{m.batch, m.m, m.n, m.k};
  auto next = scalars.begin() + 4;
  for (const auto *strides : {&m.a_strides, &m.b_strides, &m.c_strides})
    next = std::copy(strides->begin(), strides->end(), next);
  void *buffers[] = {memory[0], memory[1], memory[2]};
  int64_t part =
      std::clamp<int64_t>(int64_t(kKernelFlops / 3 * double(count) / flopsOf(m)), 5, count);
  std::set<int64_t> rows;
  for (int64_t first : {int64_t(0), count * 5 / 12 - part / 2, count - part}) {
    first = std::clamp<int64_t>(first, 0, count - part);
    if (!rows.empty() && first <= *rows.rbegin()) // Run each row once, as it may be accumulated.
      first = *rows.rbegin() + 1;
    if (first >= count)
      break;
    int64_t last = std::min(first + part, count), cut = first + (last - first) * 2 / 3;
    auto kernel = setting.kernels[m.fallback];
    kernel(buffers, scalars.data(), first, cut);
    kernel(buffers, scalars.data(), cut, last);
    for (int64_t row : {first, first + 1, cut - 1, cut, last - 2, last - 1})
      if (row >= first && row < last)
        rows.insert(row);
  }
  compare(values, std::vector<int64_t>(rows.begin(), rows.end()),
          m.accumulate ? before.data() : nullptr, "the plan's kernel", finding);
  if (memory.isGuardOverwritten())
    finding = {INFINITY, "writes beside its result", true};
  return finding;
}

} // namespace llmc::verify
