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
  Source(uint64_t seed, bool positive) : engine(seed), positive(positive) {}

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
double scaleOf(const Operand &operand, const std::byte *at) {
  uint64_t size = planfile::byteSize(operand.dtype), count = 0;
  double sum = 0;
  for (uint64_t i = 0; i < operand.size / size; ++i) {
    double value = readFloat(operand.dtype, at + i * size);
    if (std::isfinite(value)) {
      sum += value * value;
      ++count;
    }
  }
  return count ? std::sqrt(sum / double(count)) : 0;
}

bool sameBits(const std::byte *a, const std::byte *b, uint64_t size) {
  return std::memcmp(a, b, size) == 0;
}

void compareOperand(const Launch &launch, unsigned number, const std::byte *expected,
                    const std::byte *got, double tolerance, Comparison &result) {
  const Operand &operand = launch.operands[number];
  uint64_t size = planfile::byteSize(operand.dtype);
  double scale = isFloat(operand.dtype) ? scaleOf(operand, expected) : 0;
  auto wrong = [&](uint64_t i, const std::string &what) {
    if (result.problem.empty())
      result.problem = support::text("operand ", number, ", element ", i, ": ", what);
  };
  for (uint64_t i = 0; i < operand.size / size; ++i) {
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
    double error = std::abs(want - have) / std::max({std::abs(want), scale, 1e-30});
    if (want == have)
      error = 0;
    result.worst = std::max(result.worst, std::isnan(error) ? INFINITY : error);
    if (!(error <= tolerance))
      wrong(i, support::text("expected ", want, ", got ", have));
  }
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

Regions gpucheck::drawRegions(const Launch &launch, uint64_t seed, bool positive) {
  Regions regions;
  for (uint64_t size : launch.regions)
    regions.emplace_back(size + 2 * kGuardBytes, std::byte{0xa5});
  Source source(seed, positive);
  // Draws operands that are written too: they must not matter, unless they are read as well.
  for (bool written : {true, false})
    for (const Operand &operand : launch.operands)
      if (operand.scratch)
        std::fill_n(regions[operand.region].data() + kGuardBytes + operand.offset, operand.size,
                    std::byte{0});
      else if (operand.written == written)
        source.fill(operand.dtype, operand.limit,
                    regions[operand.region].data() + kGuardBytes + operand.offset,
                    operand.size / planfile::byteSize(operand.dtype));
  return regions;
}

Comparison gpucheck::compare(const Launch &launch, const Regions &before, const Regions &expected,
                             const Regions &got, double tolerance) {
  Comparison result;
  std::vector<std::vector<bool>> written;
  for (const auto &region : before)
    written.emplace_back(region.size(), false);
  for (unsigned i = 0; i < launch.operands.size(); ++i) {
    const Operand &operand = launch.operands[i];
    if (!operand.written)
      continue;
    uint64_t at = kGuardBytes + operand.offset;
    if (!operand.scratch)
      compareOperand(launch, i, expected[operand.region].data() + at,
                     got[operand.region].data() + at, tolerance, result);
    std::fill_n(written[operand.region].begin() + at, operand.size, true);
  }
  for (size_t r = 0; r < before.size(); ++r)
    for (size_t i = 0; i < before[r].size(); ++i)
      if (!written[r][i] && before[r][i] != got[r][i] && result.problem.empty())
        result.problem = support::text("wrote outside of its results: region ", r, ", byte ",
                                       static_cast<int64_t>(i) -
                                           static_cast<int64_t>(kGuardBytes));
  return result;
}
