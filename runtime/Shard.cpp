#include "runtime/Shard.h"

#include <algorithm>

using namespace llmc;
using namespace llmc::runtime;

Shard::Shard(const std::vector<int64_t> &global, const std::vector<int64_t> &local,
             const Cuts &cuts, const planfile::MeshT &mesh,
             const std::vector<uint32_t> &coordinate)
    : local(local) {
  for (size_t d = 0; d < local.size(); ++d) {
    int64_t part = 0;
    if (d < cuts.size())
      for (uint32_t axis : cuts[d]->axes)
        part = part * mesh.axes[axis]->size + coordinate[axis];
    start.push_back(part * local[d]);
    valid.push_back(std::clamp<int64_t>(global[d] - start[d], 0, local[d]));
  }
}

bool runtime::isFirstHolder(const Cuts &cuts, uint32_t stageAxis,
                            std::vector<uint32_t> coordinate) {
  coordinate[stageAxis] = 0;
  for (const auto &dim : cuts)
    for (uint32_t axis : dim->axes)
      coordinate[axis] = 0;
  return std::all_of(coordinate.begin(), coordinate.end(), [](uint32_t c) { return c == 0; });
}
