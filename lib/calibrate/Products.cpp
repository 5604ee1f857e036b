#include "lib/calibrate/Products.h"

#include "lib/planfile/Program.h"
#include "runtime/compute/Clock.h"
#include "runtime/compute/MatmulLibrary.h"
#include "runtime/compute/Pinning.h"
#include "runtime/compute/ThreadTeam.h"

#include <algorithm>
#include <atomic>
#include <barrier>
#include <memory>
#include <thread>

using namespace llmc;
using namespace llmc::calibrate;
using planfile::DType;

namespace {

constexpr double kSizes[] = {16, 32, 64, 128, 256, 512, 1024, 2048};

// Holds the sizes of the grids, each of which stands for rows, columns and depth.
struct Sizes {
  std::vector<double> list;

  explicit Sizes(bool quick) {
    for (size_t i = 0; i < std::size(kSizes); i += quick ? 3 : 1)
      list.push_back(kSizes[i]);
  }
  size_t places() const { return list.size() * list.size() * list.size(); }
  // Returns the size at a place of the grid: that of rows, columns or depth for a dim of 0, 1 or 2.
  int64_t at(size_t place, int dim) const {
    for (; dim < 2; ++dim)
      place /= list.size();
    return int64_t(list[place % list.size()]);
  }
};
constexpr int kRuns = 5;
constexpr uint64_t kLeastTime = 1000000; // nanoseconds of each measurement
// Rotates operands through so many bytes, since those of a program do not stay in the nearest caches.
constexpr size_t kPoolBytes = 24 << 20;

planfile::MatmulT product(DType type, bool aTurned, bool bTurned, int64_t m, int64_t n, int64_t k) {
  planfile::MatmulT what;
  what.a_type = what.b_type = what.c_type = type;
  what.batch = 1, what.m = m, what.n = n, what.k = k;
  what.a_strides = aTurned ? std::vector<int64_t>{0, 1, m} : std::vector<int64_t>{0, k, 1};
  what.b_strides = bTurned ? std::vector<int64_t>{0, 1, k} : std::vector<int64_t>{0, n, 1};
  what.c_strides = {0, n, 1};
  // Adds to sums of gradients in float32, as products of this layout do: those of weights.
  if (aTurned && !bTurned) {
    what.c_type = DType::F32;
    what.accumulate = true;
  }
  return what;
}

// Multiplies on one rank: a team of threads, with memory of its own.
class RankOfProducts {
public:
  explicit RankOfProducts(unsigned threads) : team_(threads), memory_(kPoolBytes + (3u << 24)) {
    for (size_t i = 0; i + 1 < memory_.size(); i += 2)
      memory_[i + 1] = std::byte(0x3c); // small numbers in any type of floats
  }

  // Returns the median of the seconds of some runs.
  double measure(runtime::MatmulLibrary &library, const std::vector<runtime::MatmulPart> &parts, unsigned firstThread,
                 const planfile::MatmulT &what) {
    size_t element = planfile::byteSize(what.a_type);
    const size_t sizes[3] = {size_t(what.m * what.k) * element, size_t(what.k * what.n) * element,
                             size_t(what.m * what.n) * planfile::byteSize(what.c_type)};
    std::vector<uint64_t> times;
    uint64_t spent = 0;
    for (int i = 0; i < kRuns || (spent < kLeastTime && i < 2000); ++i) {
      std::byte *at[3];
      for (int operand = 0; operand < 3; ++operand) {
        if (next_ + sizes[operand] > memory_.size())
          next_ = 0;
        at[operand] = memory_.data() + next_;
        next_ = (next_ + sizes[operand] + 63) / 64 * 64;
      }
      if (next_ > kPoolBytes)
        next_ = 0;
      uint64_t begin = runtime::nanoseconds();
      team_.run(int64_t(parts.size()), [&](int64_t p, unsigned thread) {
        const runtime::MatmulPart &part = parts[size_t(p)];
        std::byte *a = at[0] + part.a * element, *b = at[1] + part.b * element;
        library.execute(part.id, firstThread + thread, part.swapped ? b : a, part.swapped ? a : b,
                        at[2] + part.c * planfile::byteSize(what.c_type));
      });
      times.push_back(runtime::nanoseconds() - begin);
      spent += times.back();
    }
    std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
    return double(times[times.size() / 2]) * 1e-9;
  }

private:
  runtime::ThreadTeam team_;
  std::vector<std::byte> memory_;
  size_t next_ = 0;
};

struct Case {
  std::string key;
  size_t place; // in the grid
  planfile::MatmulT what;
  std::vector<runtime::MatmulPart> parts;
};

// Lists all products of the grids that the library has fast code for.
std::vector<Case> listCases(runtime::MatmulLibrary &library, const Sizes &sizes, unsigned threads) {
  std::vector<Case> cases;
  for (DType type : {DType::F32, DType::BF16, DType::F16}) {
    if (!library.whyNot(type).empty())
      continue;
    for (auto [layout, aTurned, bTurned] :
         {std::tuple(" nn", false, false), {" nt", false, true}, {" tn", true, false}}) {
      std::vector<Case> grid;
      for (size_t place = 0; place < sizes.places(); ++place) {
        Case one{std::string(toString(type)) + layout, place,
                 product(type, aTurned, bTurned, sizes.at(place, 0), sizes.at(place, 1), sizes.at(place, 2)), {}};
        one.parts = runtime::splitMatmul(library, one.what, threads);
        if (one.parts.empty())
          break;
        grid.push_back(std::move(one));
      }
      if (grid.size() == sizes.places())
        std::move(grid.begin(), grid.end(), std::back_inserter(cases));
    }
  }
  return cases;
}

} // namespace

std::map<std::string, cost::ProductGrid> calibrate::measureProducts(unsigned threads, unsigned ranks, bool quick,
                                                                    const std::function<void(double)> &report) {
  std::map<std::string, cost::ProductGrid> grids;
  std::string why;
  std::unique_ptr<runtime::MatmulLibrary> library = runtime::MatmulLibrary::open(why);
  if (!library)
    return grids;
  Sizes sizes(quick);
  std::vector<Case> cases = listCases(*library, sizes, threads);
  library->finish(threads * ranks);
  std::vector<std::vector<double>> seconds(ranks, std::vector<double>(cases.size()));
  std::barrier together(static_cast<std::ptrdiff_t>(ranks));
  auto run = [&](unsigned rank) {
    RankOfProducts of(threads);
    for (size_t i = 0; i < cases.size(); ++i) {
      together.arrive_and_wait();
      seconds[rank][i] = of.measure(*library, cases[i].parts, rank * threads, cases[i].what);
      if (rank == 0 && i % 16 == 0)
        report(double(i) / double(cases.size()));
    }
  };
  std::vector<std::thread> others;
  for (unsigned rank = 1; rank < ranks; ++rank)
    others.emplace_back(run, rank);
  run(0);
  for (std::thread &other : others)
    other.join();
  for (size_t i = 0; i < cases.size(); ++i) {
    cost::ProductGrid &grid = grids[cases[i].key];
    grid.sizes = sizes.list;
    grid.seconds.resize(sizes.places());
    double sum = 0;
    for (const auto &of : seconds)
      sum += of[i];
    grid.seconds[cases[i].place] = sum / double(ranks);
  }
  return grids;
}
