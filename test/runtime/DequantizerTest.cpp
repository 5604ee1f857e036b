// Numbers of 8 and 4 bits: every code, and shards of them against the definition of a block.
#include "runtime/states/Dequantizer.h"
#include "DrawnView.h"
#include "PlanBuilder.h"
#include "lib/support/Checkpoint.h"

#include <bit>
#include <cmath>
#include <filesystem>
#include <functional>

using namespace llmc;
using namespace llmc::test;
using runtime::Shard;
using runtime::StoredTensor;
using support::ElementType;

namespace {

constexpr ElementType kCoded[] = {ElementType::F8E4M3, ElementType::F8E5M2, ElementType::F4E2M1};

// A float of so many bits, by definition. Nothing special about any code.
float floatOf(unsigned code, int exponentBits, int mantissaBits, int bias) {
  int exponent = int(code >> mantissaBits) % (1 << exponentBits);
  int mantissa = int(code) % (1 << mantissaBits);
  float value =
      exponent ? std::ldexp(float(mantissa + (1 << mantissaBits)), exponent - bias - mantissaBits)
               : std::ldexp(float(mantissa), 1 - bias - mantissaBits);
  return code >> (exponentBits + mantissaBits) ? -value : value;
}

void expectSame(float got, float want, unsigned code) {
  if (std::isnan(want))
    EXPECT_TRUE(std::isnan(got)) << code;
  else
    EXPECT_EQ(std::bit_cast<uint32_t>(got), std::bit_cast<uint32_t>(want)) << code;
}

TEST(Codes, EveryCode) {
  for (unsigned code = 0; code < 256; ++code) {
    unsigned magnitude = code & 127;
    expectSame(support::decodeTable(ElementType::F8E4M3)[code],
               magnitude == 127 ? NAN : floatOf(code, 4, 3, 7), code);
    float e5m2 = magnitude > 124    ? NAN
                 : magnitude == 124 ? std::copysign(INFINITY, code < 128 ? 1.0f : -1.0f)
                                    : floatOf(code, 5, 2, 15);
    expectSame(support::decodeTable(ElementType::F8E5M2)[code], e5m2, code);
    float e8m0 = code == 255 ? NAN : std::ldexp(1.0f, int(code) - 127);
    expectSame(support::decodeTable(ElementType::F8E8M0)[code], e8m0, code);
    for (unsigned half : {0u, 1u})
      expectSame(support::decodeTable(ElementType::F4E2M1)[code * 2 + half],
                 floatOf(code >> (half * 4) & 15, 2, 1, 1), code);
  }
  EXPECT_EQ(support::decodeTable(ElementType::F8E4M3)[0x7e], 448);
  EXPECT_EQ(support::decodeTable(ElementType::F8E4M3)[1], std::ldexp(1.0f, -9));
  EXPECT_EQ(support::decodeTable(ElementType::F8E5M2)[0x7b], 57344);
  EXPECT_EQ(support::decodeTable(ElementType::F8E8M0)[0], std::ldexp(1.0f, -127));
  const float *pairs = support::decodeTable(ElementType::F4E2M1);
  EXPECT_EQ(std::vector<float>({pairs[0x72 * 2], pairs[0x72 * 2 + 1]}), std::vector<float>({1, 6}));
  EXPECT_EQ(support::decodeTable(ElementType::BF16), nullptr);
  uint8_t bytes[] = {0x00, 0x91};
  EXPECT_EQ(support::readAsDouble(ElementType::F4E2M1, bytes, 2), 0.5);
  EXPECT_EQ(support::readAsDouble(ElementType::F4E2M1, bytes, 3), -0.5);
  EXPECT_EQ(support::byteSize(ElementType::F4E2M1, 3), 2u);
}

class Dequantizer : public ::testing::Test {
protected:
  // A tensor of drawn bytes, none of which is no number.
  void store(ElementType type, std::vector<int64_t> shape, bool transposed) {
    std::vector<int64_t> inFile = shape;
    if (transposed)
      std::swap(inFile[0], inFile[1]);
    columns = inFile.back();
    rows = inFile[inFile.size() - 2];
    uint64_t count = *support::elementCount(shape);
    codes.assign(support::byteSize(type, count), 0);
    for (uint8_t &code : codes)
      code = uint8_t(draw(256)) & (type == ElementType::F4E2M1 ? 0xff : 0xbb);
    writeBytes(folder / "codes", std::string(3, 'x') + std::string(codes.begin(), codes.end()));
    codesFile.emplace(open("codes"));
    tensor = {&*codesFile, 3, type, std::move(shape), transposed, std::nullopt};
  }

  // A scale of 1, 2, 3, ... for each block.
  void scale(ElementType type, int64_t blockRows, int64_t blockColumns) {
    std::vector<int64_t> inFile = tensor.shape;
    if (tensor.transposed)
      std::swap(inFile[0], inFile[1]);
    uint64_t count = *support::scaleCount(inFile, blockRows, blockColumns);
    std::string bytes(5, 'x');
    scales.clear();
    for (uint64_t i = 0; i < count; ++i) {
      float value =
          type == ElementType::F8E8M0 ? std::ldexp(1.0f, int(i % 250) - 125) : float(i % 61 + 1);
      uint32_t bits = std::bit_cast<uint32_t>(value);
      uint16_t half = type == ElementType::F16 ? support::floatToHalf(value) : uint16_t(bits >> 16);
      scales.push_back(value);
      if (type == ElementType::F8E8M0)
        bytes.push_back(char(uint8_t(i % 250 + 2)));
      else if (type == ElementType::F32)
        bytes.append(reinterpret_cast<const char *>(&bits), 4);
      else
        bytes.append(reinterpret_cast<const char *>(&half), 2);
    }
    writeBytes(folder / "scales", bytes);
    scalesFile.emplace(open("scales"));
    tensor.scales = {&*scalesFile, 5, type, blockRows, blockColumns};
  }

  // Element `e` of the source, as plan.fbs defines it.
  float at(int64_t e) const {
    if (tensor.transposed)
      e = e % tensor.shape[1] * tensor.shape[0] + e / tensor.shape[1];
    auto index = static_cast<size_t>(e);
    auto code = float(support::readAsDouble(tensor.type, codes.data(), index));
    if (!tensor.scales)
      return code;
    int64_t high = tensor.scales->rows, wide = tensor.scales->columns;
    int64_t row = e / columns % rows, matrix = e / columns / rows, column = e % columns;
    int64_t down = (rows + high - 1) / high, across = (columns + wide - 1) / wide;
    return code * scales[size_t((matrix * down + row / high) * across + column / wide)];
  }

  template <class T> void check(const Shard &shard, const ViewT &view) {
    size_t count = 1;
    for (int64_t dim : shard.local)
      count *= size_t(dim);
    std::vector<T> want(count, T(-1)), got(count, T(-1));
    runtime::forEachRun(shard, view, [&](int64_t local, int64_t from, int64_t run, int64_t stride) {
      for (int64_t i = 0; i < run; ++i)
        want[size_t(local + i)] = T(at(from + i * stride));
    });
    auto status = runtime::readShard(tensor, shard, view, got.data());
    ASSERT_TRUE(bool(status)) << status.message();
    EXPECT_TRUE(got == want);
  }

  void checkDrawnView(std::vector<std::pair<int64_t, int64_t>> dims) {
    auto [shard, view] = drawShard(draw, std::move(dims));
    check<float>(shard, view);
    check<double>(shard, view);
  }

  support::ReadableFile open(const char *name) {
    auto opened = support::ReadableFile::open(folder / name);
    EXPECT_TRUE(bool(opened)) << opened.message();
    return std::move(*opened);
  }

  TemporaryFolder folder;
  Draws draw{9};
  int64_t rows = 0, columns = 0; // as the file has them
  std::vector<uint8_t> codes;
  std::vector<float> scales;
  std::optional<support::ReadableFile> codesFile, scalesFile;
  StoredTensor tensor;
};

// Blocks that rows and columns of a shard, a view or a transpose cut anywhere.
TEST_F(Dequantizer, DrawnViewsAndBlocks) {
  for (ElementType type : kCoded)
    for (int round = 0; round < 300; ++round) {
      bool turned = draw(2) == 1, stacked = !turned && draw(3) == 0;
      store(type, stacked ? std::vector<int64_t>{5, 6, 9} : std::vector<int64_t>{30, 9}, turned);
      ElementType types[] = {ElementType::F32, ElementType::BF16, ElementType::F16,
                             ElementType::F8E8M0};
      if (draw(8))
        scale(types[draw(4)], 1 + draw(rows + 3), 1 + draw(columns + 3));
      checkDrawnView({{5, 54}, {6, 9}, {9, 1}});
    }
}

// Rows longer than what is read at once, many scales, and shards of columns.
TEST_F(Dequantizer, LargeTensors) {
  for (ElementType type : kCoded)
    for (bool transposed : {false, true}) {
      store(type, {3, (1 << 19) + 7}, transposed);
      if (type == ElementType::F4E2M1)
        scale(ElementType::F8E8M0, 1, 32);
      else
        scale(ElementType::F32, 2, 1000);
      for (uint32_t coordinate : {0u, 1u}) {
        StateShardT state;
        state.global_shape = tensor.shape;
        state.local_shape = {3, (1 << 18) + 4};
        state.dims.push_back(std::make_unique<DimShardingT>());
        state.dims.push_back(std::make_unique<DimShardingT>());
        state.dims[1]->axes = {0};
        ViewT view;
        view.strides = {tensor.shape[1], 1};
        check<float>(Shard(state, smallMesh(), {coordinate, 0}), view);
      }
    }
}

// A rank whose shard is the upper half never asks for the lower one.
TEST_F(Dequantizer, OnlyTheShardIsRead) {
  store(ElementType::F8E4M3, {64, 256}, false);
  scale(ElementType::F32, 1, 1);
  std::filesystem::resize_file(folder / "codes", 3 + 32 * 256);
  std::filesystem::resize_file(folder / "scales", 5 + 4 * 32 * 256);
  StateShardT state;
  state.global_shape = {64, 256};
  state.local_shape = {32, 256};
  state.dims.push_back(std::make_unique<DimShardingT>());
  state.dims.push_back(std::make_unique<DimShardingT>());
  state.dims[0]->axes = {0};
  ViewT view;
  view.strides = {256, 1};
  check<float>(Shard(state, smallMesh(), {0, 0}), view);
  std::vector<float> to(32 * 256);
  EXPECT_FALSE(
      bool(runtime::readShard(tensor, Shard(state, smallMesh(), {1, 0}), view, to.data())));
}

} // namespace
