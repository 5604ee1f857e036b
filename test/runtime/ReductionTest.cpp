// Reductions of 16-bit floats against arithmetic that knows the formats by their definition.
#include "PlanBuilder.h"

#include "runtime/transport/Reduction.h"

#include <cmath>
#include <cstring>
#include <random>

using namespace llmc;
using namespace llmc::test;

namespace {

// A float of 16 bits: a sign, `exponent` bits, the rest fraction.
struct Format {
  DType type;
  int exponent;
  int fraction() const { return 15 - exponent; }
  int bias() const { return (1 << (exponent - 1)) - 1; }
};
constexpr Format kFormats[] = {{DType::BF16, 8}, {DType::F16, 5}};

bool isNan(const Format &f, uint16_t bits) {
  uint32_t infinity = ((1u << f.exponent) - 1) << f.fraction();
  return (bits & 0x7fffu) > infinity;
}

// Returns the number that the bits mean; an infinity is taken as the next power of two.
double meaning(const Format &f, uint16_t bits) {
  int field = (bits & 0x7fff) >> f.fraction(), fraction = bits & ((1 << f.fraction()) - 1);
  double value = field == 0 ? std::ldexp(fraction, 1 - f.bias() - f.fraction())
                            : std::ldexp((1 << f.fraction()) + fraction,
                                         field - f.bias() - f.fraction());
  return bits & 0x8000 ? -value : value;
}
float wide(const Format &f, uint16_t bits) {
  if (isNan(f, bits))
    return NAN;
  bool infinite = (bits & 0x7fff) >> f.fraction() == (1 << f.exponent) - 1;
  return infinite ? (bits & 0x8000 ? -INFINITY : INFINITY) : static_cast<float>(meaning(f, bits));
}

// The nearest of all numbers by bisection over their bits, of two the even one.
uint16_t nearest(const Format &f, float value) {
  uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  uint16_t infinity = static_cast<uint16_t>(((1 << f.exponent) - 1) << f.fraction());
  double magnitude = std::fabs(double(value));
  if (std::isinf(value) || magnitude >= meaning(f, infinity))
    return sign | infinity;
  uint16_t low = 0, high = infinity; // low <= magnitude < high
  while (high - low > 1) {
    uint16_t middle = static_cast<uint16_t>((low + high) / 2);
    (meaning(f, middle) <= magnitude ? low : high) = middle;
  }
  double below = magnitude - meaning(f, low), above = meaning(f, high) - magnitude;
  bool up = above < below || (above == below && low % 2 == 1);
  return sign | (up ? high : low);
}

uint16_t expected(const Format &f, ReduceKind kind, const std::vector<std::vector<uint16_t>> &values,
                  size_t i) {
  uint16_t largest = values[0][i];
  float sum = wide(f, largest);
  for (size_t r = 1; r < values.size(); ++r) {
    uint16_t next = values[r][i];
    sum += wide(f, next);
    if (!isNan(f, largest) && !(wide(f, largest) > wide(f, next)))
      largest = next;
  }
  if (kind == ReduceKind::Max)
    return largest;
  return std::isnan(sum) ? 0x7fff : nearest(f, sum);
}

void check(const Format &f, ReduceKind kind, std::vector<std::vector<uint16_t>> values) {
  std::vector<std::vector<uint16_t>> before = values;
  std::vector<std::byte *> buffers;
  for (auto &value : values)
    buffers.push_back(reinterpret_cast<std::byte *>(value.data()));
  runtime::reduceTo(f.type, kind, {buffers}, {buffers}, values[0].size() * 2);
  for (size_t i = 0; i < values[0].size(); ++i) {
    uint16_t want = expected(f, kind, before, i);
    for (const auto &value : values) {
      if (isNan(f, want)) {
        ASSERT_TRUE(isNan(f, value[i])) << toString(f.type) << " element " << i << ": " << value[i];
        continue;
      }
      ASSERT_EQ(value[i], want) << toString(f.type) << (kind == ReduceKind::Sum ? " sum" : " max")
                                << " of " << before[0][i] << ", " << before[1][i] << ", ...";
    }
  }
}

class Narrow : public ::testing::TestWithParam<ReduceKind> {};

// Every bit pattern beside itself, its neighbours, and drawn ones.
TEST_P(Narrow, AllPatterns) {
  for (const Format &f : kFormats) {
    std::mt19937 random(7);
    std::vector<std::vector<uint16_t>> values(3, std::vector<uint16_t>(1 << 16));
    for (uint32_t i = 0; i < (1 << 16); ++i) {
      values[0][i] = static_cast<uint16_t>(i);
      values[1][i] = static_cast<uint16_t>(i ^ (random() % 4) ^ (random() % 2 << 15));
      values[2][i] = static_cast<uint16_t>(random());
    }
    check(f, GetParam(), values);
  }
}

// Sums of numbers close to each other, where ties are frequent; lengths that fill no register.
TEST_P(Narrow, TiesAndOddLengths) {
  for (const Format &f : kFormats)
    for (size_t count : {1, 2, 63, 64, 65, 333}) {
      std::mt19937 random(static_cast<unsigned>(count));
      std::vector<std::vector<uint16_t>> values(5, std::vector<uint16_t>(count));
      for (size_t i = 0; i < count; ++i) {
        uint32_t exponent = random() % ((1u << f.exponent) - 2);
        for (auto &value : values) {
          uint32_t lower = exponent - std::min<uint32_t>(exponent, random() % 3);
          uint32_t fraction = random() % (1u << f.fraction());
          value[i] = static_cast<uint16_t>(random() % 2 << 15 | lower << f.fraction() | fraction);
        }
      }
      check(f, GetParam(), values);
    }
}

INSTANTIATE_TEST_SUITE_P(Kinds, Narrow, ::testing::Values(ReduceKind::Sum, ReduceKind::Max));

// 1 + eps/2 + eps/2: rounded once it is 1 + eps, rounded after each addition 1.
TEST(Reduction, RoundsOnce) {
  for (const Format &f : kFormats) {
    auto one = static_cast<uint16_t>(f.bias() << f.fraction());
    auto half = static_cast<uint16_t>((f.bias() - f.fraction() - 1) << f.fraction());
    std::vector<uint16_t> a = {one}, b = {half}, c = {half};
    std::vector<std::byte *> sources;
    for (auto *value : {&a, &b, &c})
      sources.push_back(reinterpret_cast<std::byte *>(value->data()));
    runtime::reduceTo(f.type, ReduceKind::Sum, {sources}, {{&sources[0], 1}}, 2);
    EXPECT_EQ(a[0], one + 1) << toString(f.type);
    EXPECT_EQ(b[0], half);
  }
}

// Through a plan, as ranks issue it.
TEST(Reduction, OfAPlan) {
  const runtime::Kernels none(std::vector<runtime::KernelFunction>{});
  for (const Format &f : kFormats) {
    auto program = makeProgram({1, 1, 4}, 1, 1024);
    add(*program, 0,
        collective(CollectiveKind::ReduceScatter, {2}, 8, ref(0, 64), ref(128, 16), f.type));
    add(*program, 0,
        collective(CollectiveKind::AllReduce, {2}, 8, ref(128, 16), ref(128, 16), f.type,
                   ReduceKind::Max));
    auto executor = makeExecutor(*program, none);
    auto one = static_cast<uint16_t>(f.bias() << f.fraction());
    for (uint32_t rank = 0; rank < 4; ++rank)
      std::fill_n(at<uint16_t>(*executor, rank, 0), 32, rank % 2 ? one : uint16_t(one | 0x8000));
    at<uint16_t>(*executor, 1, 0)[9] = one + (1 << f.fraction()); // 2, of rank 1's shard
    ASSERT_TRUE(bool(executor->runStep({})));
    for (uint32_t rank = 0; rank < 4; ++rank)
      for (int i = 0; i < 8; ++i)
        EXPECT_EQ(at<uint16_t>(*executor, rank, 128)[i], i == 1 ? one : 0);
  }
}

} // namespace
