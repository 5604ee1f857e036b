#include "tools/llmc-gpu-check/Launch.h"

#include "lib/support/ElementType.h"
#include "lib/support/Error.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <random>

using namespace llmc;
using namespace llmc::gpucheck;
using planfile::DType;

namespace {

// Counts the elements of a part that one thread draws or compares; what is drawn depends on it.
constexpr uint64_t kChunk = 1 << 16;
// Limits how many results of 16 bits may be a neighbour of the expected one. Sums that differ
// by an fp32 rounding straddle a tie in one of 2^15 elements; some kernels round several times.
constexpr uint64_t kFewNeighbours = 4, kNeighboursOneIn = 500;
// Aligns regions, in the arena and here; kernels require 16.
constexpr uint64_t kAlignment = 64;
static_assert(kGuardBytes % kAlignment == 0);

// Assigns operands to regions, so that those that overlap in the arena overlap here too.
void placeOperands(Launch &launch, const planfile::LaunchT &from) {
  std::vector<size_t> order(from.operands.size());
  for (size_t i = 0; i < order.size(); ++i)
    order[i] = i;
  auto at = [&](size_t i) -> const planfile::BufferRefT & { return *from.operands[i]->buffer; };
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return at(a).offset < at(b).offset; });
  uint64_t begin = 0, end = 0;
  for (size_t i : order) {
    const planfile::BufferRefT &buffer = at(i);
    if (launch.regions.empty() || buffer.offset >= end) {
      launch.regions.push_back(0);
      begin = buffer.offset / kAlignment * kAlignment;
      end = begin;
    }
    end = std::max(end, buffer.offset + buffer.size);
    launch.regions.back() = end - begin;
    Operand &operand = launch.operands[i];
    operand.region = static_cast<unsigned>(launch.regions.size() - 1);
    operand.offset = buffer.offset - begin;
    operand.size = buffer.size;
    operand.written = from.operands[i]->access != planfile::Access::Read;
  }
}

double readFloat(DType dtype, const std::byte *at) {
  switch (dtype) {
  case DType::F32: {
    float value;
    std::memcpy(&value, at, sizeof value);
    return value;
  }
  case DType::F64: {
    double value;
    std::memcpy(&value, at, sizeof value);
    return value;
  }
  case DType::BF16:
  case DType::F16: {
    uint16_t bits;
    std::memcpy(&bits, at, sizeof bits);
    return dtype == DType::BF16 ? support::bfloatToFloat(bits) : support::halfToFloat(bits);
  }
  default:
    return 0;
  }
}

bool isFloat(DType dtype) {
  return dtype == DType::F32 || dtype == DType::F64 || dtype == DType::BF16 || dtype == DType::F16;
}

class Source {
public:
  Source(std::seed_seq &seeds, bool positive) : engine(seeds), positive(positive) {}

  void fill(DType dtype, int64_t limit, std::byte *at, uint64_t count) {
    uint64_t size = planfile::byteSize(dtype);
    for (uint64_t i = 0; i < count; ++i)
      write(dtype, limit, at + i * size);
  }

private:
  float number() {
    return positive ? std::uniform_real_distribution<float>(0.05f, 1.0f)(engine) : normal(engine);
  }
  int64_t index(int64_t limit) {
    constexpr int64_t kSmall = 4, kOutside = 64; // one in kOutside is out of range
    if (limit == 0)
      return std::uniform_int_distribution<int64_t>(positive ? 0 : -kSmall, kSmall)(engine);
    int64_t value = std::uniform_int_distribution<int64_t>(0, limit - 1)(engine);
    return std::uniform_int_distribution<int64_t>(1, kOutside)(engine) == 1 ? -1 - value : value;
  }
  void write(DType dtype, int64_t limit, std::byte *at) {
    auto put = [&](auto value) { std::memcpy(at, &value, sizeof value); };
    switch (dtype) {
    case DType::F32:
      return put(number());
    case DType::F64:
      return put(double(number()));
    case DType::BF16:
      return put(static_cast<uint16_t>(std::bit_cast<uint32_t>(number()) >> 16));
    case DType::F16: // 1 + 10 random mantissa bits: in [1, 2), of either sign
      return put(static_cast<uint16_t>(0x3c00 | (engine() & (positive ? 0x03ff : 0x83ff))));
    case DType::I64:
      return put(index(limit));
    case DType::I32:
      return put(static_cast<int32_t>(index(limit)));
    case DType::I1:
      return put(static_cast<uint8_t>(engine() & 1));
    case DType::U8:
      return put(static_cast<uint8_t>(engine()));
    }
  }

  std::mt19937_64 engine;
  std::normal_distribution<float> normal;
  bool positive;
};

// Returns the root mean square of the finite elements, relative to which errors are measured.
double scaleOf(const Operand &operand, const std::byte *at, runtime::ThreadTeam &team) {
  uint64_t size = planfile::byteSize(operand.dtype), elements = operand.size / size;
  auto parts = static_cast<int64_t>((elements + kChunk - 1) / kChunk);
  std::vector<std::pair<double, uint64_t>> sums(static_cast<size_t>(parts));
  team.run(parts, [&](int64_t part, unsigned) {
    auto &[sum, count] = sums[static_cast<size_t>(part)];
    uint64_t begin = static_cast<uint64_t>(part) * kChunk;
    for (uint64_t i = begin; i < std::min(begin + kChunk, elements); ++i)
      if (double value = readFloat(operand.dtype, at + i * size); std::isfinite(value)) {
        sum += value * value;
        ++count;
      }
  });
  double sum = 0;
  uint64_t count = 0;
  for (const auto &[partSum, partCount] : sums) {
    sum += partSum;
    count += partCount;
  }
  return count ? std::sqrt(sum / double(count)) : 0;
}

bool sameBits(const std::byte *a, const std::byte *b, uint64_t size) {
  return std::memcmp(a, b, size) == 0;
}

// Returns whether two finite numbers of 16 bits are neighbours, or equal: where card and CPU
// lie on either side of a tie in fp32, they round to neighbours.
bool areNeighbours(DType dtype, const std::byte *a, const std::byte *b) {
  if (dtype != DType::BF16 && dtype != DType::F16)
    return false;
  auto order = [](const std::byte *at) {
    uint16_t bits;
    std::memcpy(&bits, at, sizeof bits);
    int magnitude = bits & 0x7fff;
    return bits & 0x8000 ? -magnitude : magnitude;
  };
  return std::abs(order(a) - order(b)) <= 1;
}

// Compares elements [begin, end) of one operand; `scale` is its root mean square.
Comparison compareElements(const Operand &operand, unsigned number, double scale,
                           const std::byte *expected, const std::byte *got, uint64_t begin,
                           uint64_t end, double tolerance) {
  Comparison result;
  uint64_t size = planfile::byteSize(operand.dtype);
  auto wrong = [&](uint64_t i, const std::string &what) {
    if (result.problem.empty())
      result.problem = support::text("operand ", number, ", element ", i, ": ", what);
  };
  for (uint64_t i = begin; i < end; ++i) {
    const std::byte *e = expected + i * size, *g = got + i * size;
    ++result.compared;
    if (!isFloat(operand.dtype)) {
      ++result.finite;
      if (!sameBits(e, g, size))
        wrong(i, "integers differ");
      continue;
    }
    double want = readFloat(operand.dtype, e), have = readFloat(operand.dtype, g);
    if (!std::isfinite(want)) {
      if (!(want == have || (std::isnan(want) && std::isnan(have))))
        wrong(i, support::text("expected ", want, ", got ", have));
      continue;
    }
    ++result.finite;
    if (want == have)
      continue;
    double error = std::abs(want - have) / std::max({std::abs(want), scale, 1e-30});
    result.worst = std::max(result.worst, std::isnan(error) ? INFINITY : error);
    if (error <= tolerance)
      continue;
    if (std::isfinite(have) && areNeighbours(operand.dtype, e, g))
      ++result.neighbours;
    else
      wrong(i, support::text("expected ", want, ", got ", have));
  }
  return result;
}

void compareOperand(const Launch &launch, unsigned number, const std::byte *expected,
                    const std::byte *got, double tolerance, runtime::ThreadTeam &team,
                    Comparison &result) {
  const Operand &operand = launch.operands[number];
  uint64_t count = operand.size / planfile::byteSize(operand.dtype);
  auto parts = static_cast<int64_t>((count + kChunk - 1) / kChunk);
  double scale = isFloat(operand.dtype) ? scaleOf(operand, expected, team) : 0;
  std::vector<Comparison> found(static_cast<size_t>(parts));
  team.run(parts, [&](int64_t part, unsigned) {
    uint64_t begin = static_cast<uint64_t>(part) * kChunk;
    found[static_cast<size_t>(part)] =
        compareElements(operand, number, scale, expected, got, begin,
                        std::min(begin + kChunk, count), tolerance);
  });
  uint64_t neighbours = 0;
  for (const Comparison &one : found) {
    result.worst = std::max(result.worst, one.worst);
    result.compared += one.compared;
    result.finite += one.finite;
    neighbours += one.neighbours;
    if (result.problem.empty())
      result.problem = one.problem;
  }
  result.neighbours += neighbours;
  if (result.problem.empty() && neighbours > kFewNeighbours + count / kNeighboursOneIn)
    result.problem = support::text("operand ", number, ": ", neighbours, " of ", count,
                                   " elements are one rounding off, more than ties explain");
}

} // namespace

uint64_t Launch::bytes() const {
  uint64_t sum = 0;
  for (const Operand &operand : operands)
    sum += operand.size;
  return sum;
}

std::optional<Launch> gpucheck::findLaunch(const planfile::ProgramT &program,
                                           const planfile::DeviceKernelT &kernel) {
  std::optional<Launch> best;
  for (uint32_t s = 0; s < program.stages.size(); ++s) {
    std::vector<uint32_t> coordinate(program.mesh->axes.size(), 0);
    if (program.stage_axis < coordinate.size())
      coordinate[program.stage_axis] = s;
    for (const auto &procedure : program.stages[s]->procedures)
      for (const auto &instruction : procedure->instructions) {
        const planfile::LaunchT *from = instruction->body.AsLaunch();
        if (!from || from->kernel != kernel.kernel || (best && best->rows >= from->rows) ||
            from->operands.size() != kernel.buffers.size() + (kernel.scratch_bytes > 0) ||
            from->scalars.size() != kernel.scalars)
          continue;
        Launch launch;
        launch.kernel = &kernel;
        launch.rows = from->rows;
        launch.operands.resize(from->operands.size());
        launch.operands.back().scratch = kernel.scratch_bytes > 0;
        launch.operands.back().dtype = DType::U8;
        for (size_t i = 0; i < kernel.buffers.size(); ++i) {
          launch.operands[i].dtype = kernel.buffers[i]->dtype;
          launch.operands[i].limit = kernel.buffers[i]->limit;
        }
        placeOperands(launch, *from);
        for (const auto &scalar : from->scalars)
          launch.scalars.push_back(planfile::evaluate(*scalar, coordinate));
        best = std::move(launch);
      }
  }
  return best;
}

Regions gpucheck::drawRegions(const Launch &launch, uint64_t seed, bool positive,
                              runtime::ThreadTeam &team) {
  Regions regions;
  for (uint64_t size : launch.regions)
    regions.emplace_back(size + 2 * kGuardBytes, std::byte{0xa5});
  uint64_t drawn = 0; // parts so far, each of which has a seed of its own
  auto draw = [&](const Operand &operand) {
    uint64_t size = planfile::byteSize(operand.dtype), count = operand.size / size;
    std::byte *at = regions[operand.region].data() + kGuardBytes + operand.offset;
    auto parts = static_cast<int64_t>((count + kChunk - 1) / kChunk);
    team.run(parts, [&](int64_t part, unsigned) {
      uint64_t begin = static_cast<uint64_t>(part) * kChunk;
      std::seed_seq seeds{seed, drawn + static_cast<uint64_t>(part)};
      Source(seeds, positive)
          .fill(operand.dtype, operand.limit, at + begin * size, std::min(kChunk, count - begin));
    });
    drawn += static_cast<uint64_t>(parts);
  };
  // Draws operands that are written too: they must not matter, unless they are read as well.
  for (bool written : {true, false})
    for (const Operand &operand : launch.operands)
      if (operand.scratch)
        std::fill_n(regions[operand.region].data() + kGuardBytes + operand.offset, operand.size,
                    std::byte{0});
      else if (operand.written == written)
        draw(operand);
  return regions;
}

Comparison gpucheck::compare(const Launch &launch, const Regions &before, const Regions &expected,
                             const Regions &got, double tolerance, runtime::ThreadTeam &team) {
  Comparison result;
  // Holds by region what is written, as intervals [begin, end) of its bytes.
  std::vector<std::vector<std::pair<uint64_t, uint64_t>>> written(before.size());
  for (unsigned i = 0; i < launch.operands.size(); ++i) {
    const Operand &operand = launch.operands[i];
    if (!operand.written)
      continue;
    uint64_t at = kGuardBytes + operand.offset;
    if (!operand.scratch)
      compareOperand(launch, i, expected[operand.region].data() + at,
                     got[operand.region].data() + at, tolerance, team, result);
    written[operand.region].push_back({at, at + operand.size});
  }
  for (size_t r = 0; r < before.size(); ++r) {
    uint64_t from = 0;
    auto unchanged = [&](uint64_t to) {
      for (uint64_t i = from; i < to && result.problem.empty(); ++i)
        if (before[r][i] != got[r][i])
          result.problem = support::text("wrote outside of its results: region ", r, ", byte ",
                                         static_cast<int64_t>(i) -
                                             static_cast<int64_t>(kGuardBytes));
    };
    std::sort(written[r].begin(), written[r].end());
    for (auto [begin, end] : written[r]) {
      unchanged(begin);
      from = std::max(from, end);
    }
    unchanged(before[r].size());
  }
  return result;
}
