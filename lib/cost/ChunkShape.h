// Finds chunks of a pipeline that are alike, and the few layers that stand for those of a chunk. Tests:
// test/cost/ChunkShapeTest.cpp.
#ifndef LLMC_LIB_COST_CHUNKSHAPE_H
#define LLMC_LIB_COST_CHUNKSHAPE_H

#include "lib/cost/Step.h"

#include <vector>

namespace llmc::cost {

// Names how often a pattern of layers stands in a chunk until what is alive beside states and slots does not change any
// more: a layer, its neighbours on both sides, and one whose weights or gradients are still on their way.
inline constexpr size_t kRepeatsThatDiffer = 4;

// Returns the places of the layers that stand for all of a sequence of kinds: all, but of a pattern of up to eight kinds that
// repeats itself the first kRepeatsThatDiffer.
std::vector<size_t> layersThatDiffer(const std::vector<int> &kinds);

// Returns the numbers of the layers that stand for those of each chunk, chunks in the order of the model.
std::vector<std::vector<size_t>> layersOfChunks(const Table &table, const Machine &machine);

// Returns the shape of each chunk, in the order of the model.
std::vector<ChunkShape> shapesOf(const Table &table, const Machine &machine);

} // namespace llmc::cost

#endif // LLMC_LIB_COST_CHUNKSHAPE_H
