// Where the elements of a rank's shard of a state lie in the source tensor.
#ifndef LLMC_RUNTIME_SHARD_H
#define LLMC_RUNTIME_SHARD_H

#include "lib/planfile/Program.h"

#include <cstdint>
#include <vector>

namespace llmc::runtime {

// A rank's part of a state: its first element along each dim and how many of
// its local_shape are not padding.
struct Shard {
  Shard(const planfile::StateShardT &state, const planfile::MeshT &mesh,
        const std::vector<uint32_t> &coordinate);

  std::vector<int64_t> start, valid, local;
};

// Calls f(localElement, sourceElement, count, sourceStride) for every run of
// elements of `shard` along its last dim, padding left out: element
// localElement + i of the shard is sourceElement + i * sourceStride of the source.
template <class F>
void forEachRun(const Shard &shard, const planfile::ViewT &view, F &&f) {
  size_t dims = shard.local.size();
  if (dims == 0)
    return f(int64_t(0), view.offset, int64_t(1), int64_t(1));
  for (int64_t size : shard.valid)
    if (size <= 0)
      return;
  std::vector<int64_t> at(dims, 0);
  while (true) {
    int64_t local = 0, source = view.offset;
    for (size_t d = 0; d < dims; ++d) {
      local = local * shard.local[d] + at[d];
      source += (shard.start[d] + at[d]) * view.strides[d];
    }
    f(local, source, shard.valid.back(), view.strides.back());
    size_t d = dims - 1;
    while (d > 0 && ++at[d - 1] == shard.valid[d - 1])
      at[--d] = 0;
    if (d == 0)
      return;
  }
}

} // namespace llmc::runtime

#endif // LLMC_RUNTIME_SHARD_H
