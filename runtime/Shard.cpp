#include "runtime/Shard.h"

#include <algorithm>

using namespace llmc;
using namespace llmc::runtime;

Shard::Shard(const planfile::StateShardT &state, const planfile::MeshT &mesh,
             const std::vector<uint32_t> &coordinate)
    : local(state.local_shape) {
  for (size_t d = 0; d < local.size(); ++d) {
    int64_t part = 0;
    for (uint32_t axis : state.dims[d]->axes)
      part = part * mesh.axes[axis]->size + coordinate[axis];
    start.push_back(part * local[d]);
    valid.push_back(std::clamp<int64_t>(state.global_shape[d] - start[d], 0, local[d]));
  }
}
