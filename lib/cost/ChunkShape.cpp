#include "lib/cost/ChunkShape.h"

#include <algorithm>

using namespace llmc;
using namespace llmc::cost;

// Returns how often the `period` kinds at a place stand one behind the other.
static size_t repeatsAt(const std::vector<int> &kinds, size_t at, size_t period) {
  size_t equal = 0;
  while (at + period + equal < kinds.size() && kinds[at + equal] == kinds[at + period + equal])
    ++equal;
  return 1 + equal / period;
}

std::vector<size_t> llmc::cost::layersThatDiffer(const std::vector<int> &kinds) {
  constexpr size_t longest = 8;
  std::vector<size_t> places;
  for (size_t at = 0; at < kinds.size();) {
    size_t step = 1, keeps = 1;
    for (size_t period = 1; period <= std::min(longest, kinds.size() - at); ++period)
      if (size_t repeats = repeatsAt(kinds, at, period); repeats > kRepeatsThatDiffer) {
        step = repeats * period, keeps = kRepeatsThatDiffer * period;
        break;
      }
    for (size_t i = 0; i < keeps; ++i)
      places.push_back(at + i);
    at += step;
  }
  return places;
}

std::vector<std::vector<size_t>> llmc::cost::layersOfChunks(const Table &table, const Machine &machine) {
  std::vector<std::vector<size_t>> chunks;
  size_t next = 0;
  for (int64_t count : divideLayers(table, machine)) {
    auto begin = table.layers.begin() + std::ptrdiff_t(next);
    chunks.push_back(layersThatDiffer(std::vector<int>(begin, begin + count)));
    for (size_t &place : chunks.back())
      place += next;
    next += size_t(count);
  }
  return chunks;
}

std::vector<ChunkShape> llmc::cost::shapesOf(const Table &table, const Machine &machine) {
  std::vector<ChunkShape> shapes;
  std::vector<std::vector<size_t>> chunks = layersOfChunks(table, machine);
  for (size_t i = 0; i < chunks.size(); ++i) {
    ChunkShape shape{i == 0, i + 1 == chunks.size(), {}};
    for (size_t layer : chunks[i])
      shape.kinds.push_back(table.layers[layer]);
    shapes.push_back(std::move(shape));
  }
  return shapes;
}
