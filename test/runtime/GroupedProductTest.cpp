// Products of routed rows, by the library and by the program's own kernel, against plain loops. Numbers are
// small integers, whose sums are exact in every order.
#include "PlanBuilder.h"

#include "lib/support/ElementType.h"
#include "runtime/compute/GroupedProduct.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <random>

using namespace llmc;
using namespace llmc::test;
using runtime::ExecutorOptions;
using runtime::GroupedProduct;
using runtime::GroupedScratch;
using runtime::Kernels;
using runtime::MatmulLibrary;
using runtime::ThreadTeam;

namespace {

double load(const void *data, DType type, int64_t i) {
  return type == DType::F32 ? double(static_cast<const float *>(data)[i])
                            : double(support::bfloatToFloat(static_cast<const uint16_t *>(data)[i]));
}
void store(void *data, DType type, int64_t i, double value) {
  if (type == DType::F32)
    static_cast<float *>(data)[i] = float(value);
  else
    static_cast<uint16_t *>(data)[i] = support::floatToBfloat(float(value));
}

// Multiplies by its scalars alone, as an emitted fallback does: C = A B, or C += A B.
template <DType kIn, DType kOut, bool kAdds>
void multiply(void *const *buffers, const int64_t *s, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row)
    for (int64_t n = 0; n < s[2]; ++n) {
      int64_t c = row * s[11] + n * s[12];
      double sum = kAdds ? load(buffers[2], kOut, c) : 0;
      for (int64_t k = 0; k < s[3]; ++k)
        sum += load(buffers[0], kIn, row * s[5] + k * s[6]) * load(buffers[1], kIn, k * s[8] + n * s[9]);
      store(buffers[2], kOut, c, sum);
    }
}

struct Types {
  DType in = DType::F32, out = DType::F32;
};

runtime::KernelFunction kernelOf(Types types, bool adds) {
  if (types.in == DType::F32 && types.out == DType::BF16)
    return adds ? multiply<DType::F32, DType::BF16, true> : multiply<DType::F32, DType::BF16, false>;
  if (types.in == DType::F32)
    return adds ? multiply<DType::F32, DType::F32, true> : multiply<DType::F32, DType::F32, false>;
  if (types.out == DType::F32)
    return adds ? multiply<DType::BF16, DType::F32, true> : multiply<DType::BF16, DType::F32, false>;
  return adds ? multiply<DType::BF16, DType::BF16, true> : multiply<DType::BF16, DType::BF16, false>;
}

constexpr int64_t kFirst = 10; // number of group 0

// Holds one product, its operands in elements of their types, and what C was before.
struct Case {
  Case(RoutingForm form, Types types, std::vector<int64_t> routes, int64_t groups, int64_t width, int64_t n,
       int64_t aShare = 1, int64_t bShare = 1, bool accumulate = false)
      : routes(std::move(routes)) {
    int64_t rows = int64_t(this->routes.size());
    bool byRows = form == RoutingForm::Rows;
    what.a_type = what.b_type = types.in;
    what.c_type = types.out;
    what.batch = groups, what.n = n;
    what.m = byRows ? rows : width, what.k = byRows ? width : rows;
    what.a_strides = byRows ? std::vector<int64_t>{0, width, 1} : std::vector<int64_t>{0, 1, width};
    what.b_strides = byRows ? std::vector<int64_t>{width * n, n, 1} : std::vector<int64_t>{0, n, 1};
    what.c_strides = {byRows ? 0 : width * n, n, 1};
    what.accumulate = accumulate;
    what.routing = std::make_unique<RoutingT>();
    what.routing->form = form;
    what.routing->a_share = aShare;
    what.routing->b_share = bShare;
    a = numbers(rows / aShare * width, types.in, 7, 3);
    b = numbers(byRows ? groups * width * n : rows / bShare * n, types.in, 5, 2);
    before = numbers((byRows ? rows : groups * width) * n, types.out, 11, 5);
  }

  // Returns elements that repeat with a prime period.
  static std::vector<std::byte> numbers(int64_t count, DType type, int64_t period, int64_t less) {
    std::vector<std::byte> bytes(std::max<int64_t>(count, 1) * byteSize(type));
    for (int64_t i = 0; i < count; ++i)
      store(bytes.data(), type, i, double((i * 31 + i / 13) % period - less));
    return bytes;
  }

  bool byRows() const { return what.routing->form == RoutingForm::Rows; }
  int64_t groupOf(int64_t row) const {
    int64_t route = routes[row];
    return route < kFirst || route >= kFirst + what.batch ? -1 : route - kFirst;
  }
  uint64_t routed() const {
    uint64_t count = 0;
    for (size_t i = 0; i < routes.size(); ++i)
      count += groupOf(int64_t(i)) >= 0;
    return count;
  }
  uint64_t flops() const { return 2 * routed() * uint64_t(what.n) * uint64_t(byRows() ? what.k : what.m); }

  // Computes C as plan.fbs says.
  std::vector<double> expected() const {
    const RoutingT &routing = *what.routing;
    int64_t width = byRows() ? what.k : what.m, n = what.n;
    std::vector<double> c((byRows() ? what.m : what.batch * what.m) * n, 0);
    if (what.accumulate)
      for (size_t i = 0; i < c.size(); ++i)
        c[i] = load(before.data(), what.c_type, int64_t(i));
    for (int64_t r = 0; r < int64_t(routes.size()); ++r) {
      int64_t group = groupOf(r);
      for (int64_t w = 0; group >= 0 && w < width; ++w)
        for (int64_t j = 0; j < n; ++j) {
          double x = load(a.data(), what.a_type, r / routing.a_share * width + w);
          if (byRows())
            c[r * n + j] += x * load(b.data(), what.b_type,
                                     group * what.b_strides[0] + w * what.b_strides[1] + j * what.b_strides[2]);
          else
            c[(group * width + w) * n + j] += x * load(b.data(), what.b_type, r / routing.b_share * n + j);
        }
    }
    for (double &x : c)
      if (what.c_type == DType::BF16)
        x = support::bfloatToFloat(support::floatToBfloat(float(x)));
    return c;
  }

  // Runs the product twice with one scratch, so that it meets its own leftovers; returns C.
  std::vector<std::byte> run(bool library, unsigned threads) {
    std::string why;
    std::unique_ptr<MatmulLibrary> open = library ? MatmulLibrary::open(why) : nullptr;
    GroupedProduct product(what, open.get());
    if (open)
      open->finish(threads);
    ranByLibrary = product.byLibrary();
    ThreadTeam team(threads);
    GroupedScratch scratch(threads);
    std::vector<std::byte> c;
    for (uint64_t run = 1; run <= 2; ++run) {
      c = before;
      EXPECT_TRUE(product.run({a.data(), b.data(), c.data(), routes.data(), kFirst,
                               kernelOf({what.a_type, what.c_type}, what.accumulate), 0},
                              team, scratch));
      EXPECT_EQ(product.flops(), run * flops());
      EXPECT_EQ(product.calls(), run);
    }
    return c;
  }

  // Checks the product with and without the library, and that the number of threads changes no bits.
  void check(const std::string &name) {
    std::vector<double> want = expected();
    for (bool library : {false, true}) {
      std::vector<std::byte> alone = run(library, 1), three = run(library, 3);
      EXPECT_EQ(alone, three) << name << ", library " << library;
      int64_t wrong = 0;
      for (size_t i = 0; i < want.size(); ++i)
        wrong += load(alone.data(), what.c_type, int64_t(i)) != want[i];
      EXPECT_EQ(wrong, 0) << name << ", library " << library << ", of " << want.size();
    }
  }

  MatmulT what;
  std::vector<int64_t> routes;
  std::vector<std::byte> a, b, before;
  bool ranByLibrary = false;
};

// Draws a group for each row; a few have none.
std::vector<int64_t> drawn(int64_t rows, int64_t groups, uint64_t seed = 1) {
  std::mt19937_64 random(seed);
  std::vector<int64_t> routes;
  for (int64_t i = 0; i < rows; ++i)
    routes.push_back(random() % 10 == 0 ? -1 : kFirst + int64_t(random() % uint64_t(groups)));
  return routes;
}

constexpr RoutingForm kForms[] = {RoutingForm::Rows, RoutingForm::Terms};
constexpr Types kTypes[] = {{DType::F32, DType::F32}, {DType::BF16, DType::F32}, {DType::BF16, DType::BF16}};

std::string nameOf(RoutingForm form, Types types) {
  return std::string(EnumNameRoutingForm(form)) + " of " + std::string(toString(types.in)) + " to " +
         std::string(toString(types.out));
}

TEST(GroupedProduct, EveryFormAndType) {
  for (RoutingForm form : kForms)
    for (Types types : kTypes)
      Case(form, types, drawn(700, 5), 5, 72, 320).check(nameOf(form, types));
}

// The library takes f32, or this test shows the kernel alone.
TEST(GroupedProduct, TheLibraryTakesFloats) {
  std::string why;
  if (!MatmulLibrary::open(why))
    GTEST_SKIP() << why;
  for (RoutingForm form : kForms) {
    Case one(form, {}, drawn(100, 3), 3, 40, 48);
    one.run(true, 1);
    EXPECT_TRUE(one.ranByLibrary) << nameOf(form, {});
    one.run(false, 1);
    EXPECT_FALSE(one.ranByLibrary);
  }
}

// Any number of rows is cut and padded: all in one group, and spread.
TEST(GroupedProduct, AnyNumberOfRows) {
  for (RoutingForm form : kForms)
    for (int64_t rows = 1; rows <= 300; rows += rows < 70 ? 1 : 23) {
      Case(form, {}, std::vector<int64_t>(rows, kFirst + 1), 3, 16, 24).check("one group of " + std::to_string(rows));
      Case(form, {}, drawn(rows, 3, rows), 3, 16, 24).check("groups of " + std::to_string(rows));
    }
}

// Rows that lie together are multiplied in place: groups one behind the other, in order.
TEST(GroupedProduct, RowsInTheOrderOfTheirGroups) {
  for (RoutingForm form : kForms) {
    std::vector<int64_t> routes = drawn(1024, 4);
    std::sort(routes.begin(), routes.end());
    Case(form, {}, routes, 4, 32, 64).check("sorted");
  }
}

TEST(GroupedProduct, WithoutAnyRoute) {
  for (RoutingForm form : kForms)
    for (bool accumulate : {false, true}) {
      if (accumulate && form == RoutingForm::Rows)
        continue;
      Case(form, {}, std::vector<int64_t>(50, -1), 4, 16, 24, 1, 1, accumulate).check("none");
    }
}

TEST(GroupedProduct, RoutesOfNoGroup) {
  constexpr int64_t least = std::numeric_limits<int64_t>::min(), most = std::numeric_limits<int64_t>::max();
  std::vector<int64_t> routes = {least,      -1, kFirst - 1, kFirst,    kFirst + 2, kFirst + 3,
                                 most,       0,  kFirst + 2, most - 5,  kFirst,     least + kFirst,
                                 least + 12, 3,  kFirst,     kFirst + 1};
  for (RoutingForm form : kForms)
    Case(form, {}, routes, 3, 8, 16).check("wild");
}

// The difference of a route and the first group may not wrap around into the range.
TEST(GroupedProduct, TheFirstGroupMayBeAnyNumber) {
  Case one(RoutingForm::Rows, {}, {std::numeric_limits<int64_t>::min(), -2}, 3, 8, 16);
  GroupedProduct product(one.what, nullptr);
  ThreadTeam team(1);
  GroupedScratch scratch(1);
  std::vector<std::byte> c = one.before;
  for (int64_t first : {std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::max() - 1})
    ASSERT_TRUE(product.run({one.a.data(), one.b.data(), c.data(), one.routes.data(), first,
                             kernelOf({}, false), 0},
                            team, scratch));
  EXPECT_EQ(product.flops(), 0u);
  EXPECT_EQ(c, std::vector<std::byte>(c.size()));
}

TEST(GroupedProduct, SharedRows) {
  for (Types types : kTypes) {
    Case(RoutingForm::Rows, types, drawn(600, 4), 4, 24, 40, 2).check("rows");
    Case(RoutingForm::Terms, types, drawn(600, 4), 4, 24, 40, 3, 1).check("terms a");
    Case(RoutingForm::Terms, types, drawn(600, 4), 4, 24, 40, 1, 4).check("terms b");
  }
}

TEST(GroupedProduct, AccumulatesTerms) {
  for (Types types : kTypes)
    Case(RoutingForm::Terms, types, drawn(900, 4), 6, 24, 264, 1, 1, true).check(nameOf(RoutingForm::Terms, types));
}

// Cuts a sum along its longer side, rows or columns, and its terms; rows of a group are shared evenly.
TEST(GroupedProduct, InSeveralPieces) {
  for (auto [width, n] : {std::pair(1100, 40), std::pair(40, 1100)})
    for (bool accumulate : {false, true})
      Case(RoutingForm::Terms, {}, drawn(700, 3), 3, width, n, 1, 1, accumulate)
          .check("a sum of " + std::to_string(width) + " x " + std::to_string(n));
  for (auto [width, n] : {std::pair(1100, 40), std::pair(40, 1100)})
    Case(RoutingForm::Terms, {DType::F32, DType::BF16}, drawn(700, 3), 3, width, n).check("sums that are rounded");
  Case(RoutingForm::Terms, {}, std::vector<int64_t>(2500, kFirst), 1, 24, 16).check("many terms");
  for (int64_t rows : {319, 320, 321, 641, 2500})
    Case(RoutingForm::Rows, {}, std::vector<int64_t>(rows, kFirst), 1, 24, 16).check(std::to_string(rows) + " rows");
}

// Multiplies vectors, whose strides between rows may be any.
TEST(GroupedProduct, OfOneFeature) {
  for (auto [width, n] : {std::pair(1, 24), std::pair(24, 1), std::pair(1, 1)})
    for (RoutingForm form : {RoutingForm::Rows, RoutingForm::Terms})
      Case(form, {}, drawn(100, 3), 3, width, n).check(std::to_string(width) + " to " + std::to_string(n));
  Case one(RoutingForm::Rows, {}, drawn(100, 3), 3, 1, 24);
  one.what.b_strides = {24, 1, 1};
  one.check("transposed");
}

TEST(GroupedProduct, TransposedWeights) {
  Case one(RoutingForm::Rows, {}, drawn(333, 4), 4, 24, 40);
  one.what.b_strides = {24 * 40, 1, 24};
  one.check("transposed");
}

// Sums of many terms are rounded to bf16 once: pieces of 256 that were rounded each would lose ones.
TEST(GroupedProduct, SumsOfManyTermsAreRoundedOnce) {
  constexpr int64_t terms = 256 * 7 + 9; // 1801, of which bf16 has 1800
  Case one(RoutingForm::Terms, {DType::BF16, DType::BF16}, std::vector<int64_t>(terms, kFirst), 1, 8, 8);
  for (auto *x : {&one.a, &one.b})
    for (int64_t i = 0; i < terms * 8; ++i)
      store(x->data(), DType::BF16, i, 1);
  EXPECT_EQ(one.expected()[0], 1800);
  one.check("ones");
}

// Through the executor: the first group is that of the rank's coordinate, and the counter that of the steps.
TEST(GroupedProduct, OfARank) {
  for (bool library : {false, true}) {
    Case one(RoutingForm::Rows, {}, {10, 11, 12, 13, 14, 15, 13, 9}, 3, 8, 16);
    auto program = makeProgram({2, 1}, 1, 8192);
    program->kernels.push_back(std::make_unique<KernelT>());
    MatmulT what = one.what;
    what.a = ref(0, one.a.size());
    what.b = ref(1024, one.b.size());
    what.c = ref(4096, one.before.size());
    what.routing->routes = ref(6144, one.routes.size() * 8);
    what.routing->first = std::make_unique<CoordExprT>(expr(kFirst, {3, 0}));
    add(*program, 0, std::move(what));
    Kernels kernels({kernelOf({}, false)});
    ExecutorOptions options;
    options.useLibrary = library;
    options.threadsPerRank = 2;
    auto executor = makeExecutor(*program, kernels, options);
    for (uint32_t rank = 0; rank < 2; ++rank) {
      std::memcpy(executor->arena(rank), one.a.data(), one.a.size());
      std::memcpy(executor->arena(rank) + 1024, one.b.data(), one.b.size());
      std::memcpy(executor->arena(rank) + 6144, one.routes.data(), one.routes.size() * 8);
    }
    ASSERT_TRUE(bool(executor->runStep({})));
    for (uint32_t rank = 0; rank < 2; ++rank) {
      Case own = Case(RoutingForm::Rows, {}, one.routes, 3, 8, 16);
      for (int64_t &route : own.routes)
        route -= 3 * rank;
      std::vector<double> want = own.expected();
      for (size_t i = 0; i < want.size(); ++i)
        ASSERT_EQ(at<float>(*executor, rank, 4096)[i], want[i]) << "rank " << rank << " element " << i;
    }
    EXPECT_EQ(executor->groupedFlops(), uint64_t(2 * 7 * 8 * 16)); // of eight rows, one has no group at all
  }
}

} // namespace
