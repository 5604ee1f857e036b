#include "runtime/compute/MachineSpeed.h"

#include "runtime/compute/Clock.h"
#include "runtime/compute/MatmulLibrary.h"
#include "runtime/compute/ThreadTeam.h"

#include <algorithm>
#include <cstring>

using namespace llmc;
using namespace llmc::runtime;

namespace {

constexpr uint64_t kLeastTime = 60000000; // nanoseconds of each measurement
constexpr int kLeastRuns = 3;

// Returns the time of the shortest of several runs, in seconds, since other programs can only
// add time.
template <class F>
double bestSeconds(F run) {
  uint64_t best = ~uint64_t(0), begin = nanoseconds();
  for (int i = 0; i < kLeastRuns || nanoseconds() - begin < kLeastTime; ++i) {
    uint64_t start = nanoseconds();
    run();
    best = std::min(best, nanoseconds() - start);
  }
  return double(best) * 1e-9;
}

// Returns bytes read plus written a second of a copy of 64 MiB, which exceeds the caches of
// one core as large activations do.
double copySpeed(ThreadTeam &team) {
  constexpr size_t bytes = 64 << 20;
  std::vector<std::byte> from(bytes), to(bytes);
  int64_t parts = team.threads();
  double seconds = bestSeconds([&] {
    team.run(parts, [&](int64_t part, unsigned) {
      size_t begin = bytes * part / parts, end = bytes * (part + 1) / parts;
      std::memcpy(to.data() + begin, from.data() + begin, end - begin);
    });
  });
  return 2.0 * bytes / seconds;
}

// Returns the FLOP/s of a float32 product of oneDNN, or 0 if oneDNN is missing or refuses it.
double matmulSpeed(ThreadTeam &team) {
  constexpr int64_t rows = 2048, inner = 1024, columns = 1024;
  std::string why;
  std::unique_ptr<MatmulLibrary> library = MatmulLibrary::open(why);
  if (!library)
    return 0;
  planfile::MatmulT what;
  what.batch = 1, what.m = rows, what.n = columns, what.k = inner;
  what.a_strides = {0, inner, 1};
  what.b_strides = what.c_strides = {0, columns, 1};
  std::vector<MatmulPart> parts = splitMatmul(*library, what, team.threads());
  if (parts.empty())
    return 0;
  library->finish(team.threads());
  std::vector<float> a(rows * inner, 1.0f), b(inner * columns, 1.0f), c(rows * columns);
  double seconds = bestSeconds([&] {
    team.run(static_cast<int64_t>(parts.size()), [&](int64_t p, unsigned thread) {
      const MatmulPart &part = parts[p];
      float *left = a.data() + part.a, *right = b.data() + part.b;
      library->execute(part.id, thread, part.swapped ? right : left,
                       part.swapped ? left : right, c.data() + part.c);
    });
  });
  return 2.0 * rows * inner * columns / seconds;
}

} // namespace

MachineSpeed runtime::measureMachineSpeed(unsigned threads) {
  ThreadTeam team(threads);
  return {threads, copySpeed(team), matmulSpeed(team)};
}
