// Runs products of the plan: by the library with fewer rows, by the plan's own kernel on some
// rows.
#include "lib/support/Error.h"
#include "lib/verify/kernels/ProductNumbers.h"
#include "lib/verify/kernels/RunLaunch.h"

#include <algorithm>
#include <array>
#include <cfloat>
#include <cmath>
#include <set>

namespace llmc::verify {

using graph::Bounded;
using planfile::DType;
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
    : product(&product), few(std::make_unique<MatmulT>(product.matmul->routing ? withFewerGroups(*product.matmul)
                                                                               : withFewerRows(*product.matmul))) {
  if (product.matmul->routing) {
    grouped = std::make_unique<runtime::GroupedProduct>(*few, library);
    groupedByKernel = std::make_unique<runtime::GroupedProduct>(*few, nullptr);
  } else if (library)
    parts = runtime::splitMatmul(*library, *few, kThreads);
}

// Counts the matrices and their copies as floats.
double ProductCase::bytes() const {
  const MatmulT &m = product->matmul->routing ? *few : *product->matmul;
  double bytes = 0;
  for (auto [buffer, type] : {std::pair(m.a.get(), m.a_type), {m.b.get(), m.b_type}, {m.c.get(), m.c_type}})
    bytes += double(buffer->size) * (1 + 2.0 * sizeof(float) / double(planfile::byteSize(type)));
  return bytes;
}

double ProductCase::seconds() const {
  return (kLibraryFlops + kKernelFlops) / 5e10 + double(few->b->size) / 2e9;
}

// Holds the numbers of the matrices, in the places that they have in memory.
struct ProductCase::Values {
  const MatmulT &m;
  std::vector<float> a, b;
  std::vector<float> before; // C before the product was added; empty: none
  const std::byte *c;
  bool areEqual;
  int64_t place(const std::vector<int64_t> &strides, int64_t batch, int64_t i, int64_t j) const {
    return batch * strides[0] + i * strides[1] + j * strides[2];
  }
};

void ProductCase::compare(const Values &values, llvm::ArrayRef<int64_t> rows, std::string_view by,
                          CaseResult &finding) const {
  const MatmulT &m = values.m;
  const StoredFloat stored = storedFloat(m.c_type);
  for (int64_t row : rows)
    for (int64_t j : columnsOf(m.n)) {
      int64_t batch = row / m.m, i = row % m.m, c = values.place(m.c_strides, batch, i, j);
      Bounded right =
          exactSum(values.a.data() + values.place(m.a_strides, batch, i, 0), m.a_strides[2],
                values.b.data() + values.place(m.b_strides, batch, 0, j), m.b_strides[1], m.k,
                values.before.empty() ? 0 : double(values.before[c]), values.areEqual);
      double got = readNumber(values.c, m.c_type, c);
      double ratio = errorRatio(got, right, double(FLT_MIN), stored);
      finding.judged |= ratio >= 0;
      if (ratio <= finding.ratio)
        continue;
      finding.ratio = ratio;
      finding.problem =
          support::text(by, ": element (", batch, ", ", i, ", ", j, ") is ", got,
                        ", expected ", right.value, " +- ", right.radius());
    }
}

CaseResult ProductCase::run(const CaseContext &setting, ScratchMapping &arena, NumberRegime regime,
                            unsigned thread, uint64_t stream) const {
  if (grouped)
    return runGrouped(setting, arena, regime, thread, stream);
  const MatmulT &m = *product->matmul;
  const std::array types{m.a_type, m.b_type, m.c_type};
  const std::array buffersOf{m.a.get(), m.b.get(), m.c.get()};
  std::array<int64_t, 3> sizes{};
  std::vector<OperandBytes> extents;
  for (int i = 0; i < 3; ++i) {
    sizes[i] = int64_t(planfile::byteSize(types[i]));
    extents.push_back({buffersOf[i]->offset, buffersOf[i]->size, uint64_t(sizes[i]), i == 2,
                       i != 2 || m.accumulate});
  }
  OperandMemory memory(arena, extents);
  auto draw = [&](int i) {
    std::vector<float> numbers(extents[i].size / sizes[i]);
    setting.noise.drawFloats(int64_t(numbers.size()), regime, 1e4, stream * 64 + i, numbers.data());
    writeNumbers(numbers, types[i], memory[i]);
  };
  auto numbersOf = [&](int i) {
    std::vector<float> numbers(extents[i].size / sizes[i]);
    for (size_t at = 0; at < numbers.size(); ++at)
      numbers[at] = static_cast<float>(readNumber(memory[i], types[i], int64_t(at)));
    return numbers;
  };
  CaseResult finding;
  draw(0), draw(1); // which may share bytes
  Values values{m, numbersOf(0), numbersOf(1), {}, memory[2], regime == NumberRegime::Equal};
  int64_t count = m.batch * m.m;
  // Keep what a result is added to: the comparison needs it afterwards.
  auto begin = [&] {
    memory.poison();
    if (!m.accumulate)
      return;
    draw(2);
    values.before = numbersOf(2);
  };

  if (setting.library && !parts.empty()) {
    begin();
    for (const runtime::MatmulPart &part : parts)
      if (int a = part.swapped ? 1 : 0, b = part.swapped ? 0 : 1;
          !setting.library->execute(part.id, thread, memory[a] + int64_t(part.a) * sizes[a],
                                    memory[b] + int64_t(part.b) * sizes[b],
                                    memory[2] + int64_t(part.c) * sizes[2]))
        return {INFINITY, "the library failed", true};
    std::set<int64_t> rows;
    for (int64_t batch : {int64_t(0), few->batch - 1})
      for (int64_t i : {int64_t(0), int64_t(1), few->m / 3 / 16 * 16, few->m / 3, few->m / 2,
                        (few->m + 2) / 3 / 16 * 16 + 16, few->m - 2, few->m - 1})
        if (i >= 0 && i < few->m)
          rows.insert(batch * m.m + i);
    compare(values, std::vector<int64_t>(rows.begin(), rows.end()), "the library", finding);
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
  compare(values, std::vector<int64_t>(rows.begin(), rows.end()), "the plan's kernel", finding);
  if (memory.isGuardOverwritten())
    finding = {INFINITY, "writes beside its result", true};
  return finding;
}

} // namespace llmc::verify
