// A few layers of a chunk stand for all, and chunks that have the same layers are alike.
#include "Tables.h"

#include "lib/cost/ChunkShape.h"
#include "lib/cost/Memory.h"

#include <gtest/gtest.h>

using namespace llmc;
using namespace llmc::cost;
using namespace llmc::test;

namespace {

TEST(ChunkShape, KeepsWhatDiffers) {
  using Places = std::vector<size_t>;
  EXPECT_EQ(layersThatDiffer({}), Places());
  EXPECT_EQ(layersThatDiffer({0, 0, 0}), (Places{0, 1, 2}));
  EXPECT_EQ(layersThatDiffer(std::vector<int>(126, 0)), (Places{0, 1, 2, 3}));
  // Begins with three dense layers, as DeepSeek-V3 does.
  std::vector<int> mixed(61, 1);
  mixed[0] = mixed[1] = mixed[2] = 0;
  EXPECT_EQ(layersThatDiffer(mixed), (Places{0, 1, 2, 3, 4, 5, 6}));
  // Alternates: pairs are the pattern; a layer too many is kept.
  std::vector<int> pairs;
  for (int i = 0; i < 13; ++i)
    pairs.push_back(i % 2);
  EXPECT_EQ(layersThatDiffer(pairs), (Places{0, 1, 2, 3, 4, 5, 6, 7, 12}));
}

TEST(ChunkShape, TellsChunksApartByTheirLayers) {
  Table table = planTable(uniformTable(32, 1024, 1024));
  Machine machine;
  machine.choices.mesh.pp = 4;
  std::vector<ChunkShape> shapes = shapesOf(table, machine);
  ASSERT_EQ(shapes.size(), 4u);
  EXPECT_EQ(shapes[1], shapes[2]);
  EXPECT_NE(shapes[0], shapes[1]);
  EXPECT_NE(shapes[2], shapes[3]);
  // Shares what is alive while chunks of a stage compute.
  table.workspace = {{shapes[0], {5}}, {shapes[1], {3}}, {shapes[3], {7}}};
  std::vector<MemoryParts> memory = predictMemory(table, machine);
  EXPECT_EQ(memory[0].workspace, 5);
  EXPECT_EQ(memory[1].workspace, 3);
  EXPECT_EQ(memory[3].workspace, 7);
  machine.choices.chunks = 2;
  machine.choices.order = Order::Interleaved;
  table.workspace = {};
  std::vector<ChunkShape> ofChunks = shapesOf(table, machine);
  ASSERT_EQ(ofChunks.size(), 8u);
  table.workspace = {{ofChunks[0], {5}}, {ofChunks[1], {6}}, {ofChunks[7], {7}}};
  memory = predictMemory(table, machine);
  EXPECT_EQ(memory[0].workspace, 6);
  EXPECT_EQ(memory[3].workspace, 7);
}

} // namespace
