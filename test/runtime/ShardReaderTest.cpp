// Shards read from files against the view's own formula, element by element.
#include "runtime/states/ShardReader.h"
#include "DrawnView.h"
#include "PlanBuilder.h"
#include "lib/support/Hash.h"
#include "runtime/states/Random.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>

using namespace llmc;
using namespace llmc::test;
using runtime::Shard;
using runtime::StoredTensor;
using support::ElementType;

namespace {

// The 16 bits of a type whose value is the whole number, which they hold exactly.
uint16_t halfOf(ElementType type, uint32_t number) {
  if (type == ElementType::BF16)
    return static_cast<uint16_t>(std::bit_cast<uint32_t>(float(number)) >> 16);
  for (uint32_t bits = 0; bits < 0x7c00; ++bits)
    if (support::halfToFloat(static_cast<uint16_t>(bits)) == float(number))
      return static_cast<uint16_t>(bits);
  ADD_FAILURE() << number;
  return 0;
}

// Element i of a file is this number; below 256, exact in each type.
uint32_t valueAt(uint64_t i) { return static_cast<uint32_t>((i * 7 + i / 251) % 200); }

class ShardReader : public ::testing::Test {
protected:
  support::ReadableFile file(ElementType type, uint64_t count, uint64_t before) {
    std::string bytes(before, 'x');
    std::vector<uint16_t> halves;
    if (support::byteSize(type) == 2)
      for (uint32_t n = 0; n < 200; ++n)
        halves.push_back(halfOf(type, n));
    for (uint64_t i = 0; i < count; ++i) {
      char element[8];
      uint32_t n = valueAt(i);
      double f64 = n;
      float f32 = float(n);
      if (type == ElementType::F64)
        std::memcpy(element, &f64, 8);
      else if (type == ElementType::F32)
        std::memcpy(element, &f32, 4);
      else
        std::memcpy(element, &halves[n], 2);
      bytes.append(element, support::byteSize(type));
    }
    writeBytes(folder / "w.bin", bytes);
    auto opened = support::ReadableFile::open(folder / "w.bin");
    EXPECT_TRUE(bool(opened)) << opened.message();
    return std::move(*opened);
  }

  TemporaryFolder folder;
};

// Element by element, as plan.fbs defines a view.
template <class T>
std::vector<T> expected(const StoredTensor &tensor, const Shard &shard, const ViewT &view,
                        T padding) {
  std::vector<T> all;
  size_t count = 1;
  for (int64_t dim : shard.local)
    count *= size_t(dim);
  for (size_t i = 0; i < count; ++i) {
    size_t rest = i;
    int64_t source = view.offset;
    bool valid = true;
    for (size_t d = shard.local.size(); d-- > 0;) {
      auto at = int64_t(rest % size_t(shard.local[d]));
      rest /= size_t(shard.local[d]);
      valid &= at < shard.valid[d];
      source += (shard.start[d] + at) * view.strides[d];
    }
    if (valid && tensor.transposed)
      source = source % tensor.shape[1] * tensor.shape[0] + source / tensor.shape[1];
    all.push_back(valid ? T(valueAt(uint64_t(source))) : padding);
  }
  return all;
}

template <class T> void check(const StoredTensor &tensor, const Shard &shard, const ViewT &view) {
  std::vector<T> want = expected<T>(tensor, shard, view, T(-1)), got(want.size(), T(-1));
  auto status = runtime::readShard(tensor, shard, view, got.data());
  ASSERT_TRUE(bool(status)) << status.message();
  EXPECT_TRUE(got == want);
}

// Views of drawn shapes: permuted dims, slices, reversed dims; cut and padded.
TEST_F(ShardReader, DrawnViews) {
  Draws draw(7);
  for (ElementType type :
       {ElementType::F32, ElementType::F64, ElementType::F16, ElementType::BF16}) {
    support::ReadableFile stored = file(type, 5 * 6 * 8, 3);
    for (int round = 0; round < 200; ++round) {
      StoredTensor tensor{&stored, 3, type, {30, 8}, draw(2) == 1};
      auto [shard, view] = drawShard(draw, {{5, 48}, {6, 8}, {8, 1}});
      check<float>(tensor, shard, view);
      check<double>(tensor, shard, view);
    }
    // No dims, and a dim that runs over the rows of a transposed file.
    ViewT scalar, flat;
    scalar.offset = 17;
    flat.strides = {1};
    StateShardT one, vector;
    vector.global_shape = vector.local_shape = {240};
    vector.dims.push_back(std::make_unique<DimShardingT>());
    for (bool transposed : {false, true}) {
      StoredTensor tensor{&stored, 3, type, {30, 8}, transposed};
      check<float>(tensor, Shard(one, smallMesh(), {0, 0}), scalar);
      check<float>(tensor, Shard(vector, smallMesh(), {0, 0}), flat);
    }
  }
}

// Reads a matrix as its transpose: half of its columns, or of its rows.
class TransposedMatrix : public ShardReader {
protected:
  void check(int64_t rows, int64_t columns) {
    MeshT mesh;
    mesh.axes.push_back(std::make_unique<AxisT>());
    mesh.axes[0]->size = 2;
    for (ElementType type : {ElementType::F32, ElementType::BF16}) {
      support::ReadableFile stored = file(type, uint64_t(rows * columns), 0);
      for (bool transposed : {false, true})
        for (size_t cut : {0, 1})
          for (uint32_t coordinate : {0u, 1u}) {
            StateShardT state;
            state.global_shape = state.local_shape = {columns, rows}; // the source's transpose
            state.local_shape[cut] = (state.local_shape[cut] + 1) / 2;
            for (int d = 0; d < 2; ++d)
              state.dims.push_back(std::make_unique<DimShardingT>());
            state.dims[cut]->axes = {0};
            ViewT view;
            view.strides = {1, columns};
            ::check<float>({&stored, 0, type, {rows, columns}, transposed},
                           Shard(state, mesh, {coordinate}), view);
          }
    }
  }
};

// Rows longer than the buffer, and gaps of more than a page between them.
TEST_F(TransposedMatrix, OfLongRows) { check(3, 3 << 20); }

// Rows and columns that end within a tile, in several buffers, with gaps of more than a page.
TEST_F(TransposedMatrix, OfManyRows) { check(1111, 2071); }

TEST_F(ShardReader, AFileThatShrankIsAnError) {
  support::ReadableFile stored = file(ElementType::F32, 100, 0);
  std::filesystem::resize_file(folder / "w.bin", 396);
  StateShardT state;
  state.global_shape = state.local_shape = {100};
  state.dims.push_back(std::make_unique<DimShardingT>());
  MeshT mesh;
  ViewT view;
  view.strides = {1};
  std::vector<float> to(100);
  auto status = runtime::readShard({&stored, 0, ElementType::F32, {100}, false},
                                   Shard(state, mesh, {}), view, to.data());
  ASSERT_FALSE(bool(status));
  EXPECT_NE(status.message().find("it ends at byte 396, 4 more are needed"), std::string::npos)
      << status.message();
}

TEST_F(ShardReader, HashOfAFileIsThatOfItsBytes) {
  for (size_t size : {size_t(0), size_t(1000), (size_t(16) << 20) + 1}) {
    std::string bytes(size, 'a');
    for (size_t i = 0; i < size; i += 97)
      bytes[i] = char(i);
    writeBytes(folder / "w.bin", bytes);
    auto opened = support::ReadableFile::open(folder / "w.bin");
    std::vector<uint64_t> chunks;
    for (uint64_t i = 0; i < support::hashChunkCount(size); ++i)
      chunks.push_back(*support::chunkHash(*opened, i));
    uint64_t hash = support::fileHash(chunks);
    EXPECT_EQ(hash, *support::fileHash(*opened));
    for (size_t at : {size / 3, size / 2, size - 1})
      if (size > 0) {
        bytes[at] = char(bytes[at] ^ 1); // no byte is left out
        writeBytes(folder / "w.bin", bytes);
        EXPECT_NE(hash, *support::fileHash(*support::ReadableFile::open(folder / "w.bin")));
        bytes[at] = char(bytes[at] ^ 1);
      }
  }
}

TEST(Halves, EveryPattern) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    float got = support::halfToFloat(uint16_t(bits));
    int exponent = int(bits >> 10 & 31), mantissa = int(bits & 1023);
    float want = exponent == 31  ? (mantissa ? NAN : INFINITY)
                 : exponent == 0 ? std::ldexp(float(mantissa), -24)
                                 : std::ldexp(float(mantissa + 1024), exponent - 25);
    if (exponent == 31 && mantissa)
      EXPECT_TRUE(std::isnan(got)) << bits;
    else
      EXPECT_EQ(std::bit_cast<uint32_t>(got), std::bit_cast<uint32_t>(want) | (bits >> 15 << 31))
          << bits;
  }
}

} // namespace
