// Draws views of a source tensor, for tests of code that reads shards.
#ifndef LLMC_TEST_RUNTIME_DRAWNVIEW_H
#define LLMC_TEST_RUNTIME_DRAWNVIEW_H

#include "lib/planfile/Program.h"
#include "runtime/states/Random.h"
#include "runtime/plan/Shard.h"

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace llmc::test {

// Draws numbers below a bound, the same in every run.
class Draws {
public:
  explicit Draws(uint32_t seed) : seed_(seed) {}
  int64_t operator()(int64_t below) {
    return int64_t(runtime::philox({drawn_++, 0, 0, 0}, {seed_, 0})[0] % uint64_t(below));
  }

private:
  uint32_t seed_, drawn_ = 0;
};

// Returns a mesh with axes of 2 and of 3 ranks.
inline const planfile::MeshT &smallMesh() {
  static const planfile::MeshT made = [] {
    planfile::MeshT mesh;
    for (uint32_t size : {2, 3}) {
      mesh.axes.push_back(std::make_unique<planfile::AxisT>());
      mesh.axes.back()->size = size;
    }
    return mesh;
  }();
  return made;
}

// Draws the shard of a rank of smallMesh(), and its view of a source with three `dims` (size,
// stride): parts of them in some order, some reversed, cut over the axes.
inline std::pair<runtime::Shard, planfile::ViewT>
drawShard(Draws &draw, std::vector<std::pair<int64_t, int64_t>> dims) {
  std::swap(dims[0], dims[size_t(draw(3))]);
  std::swap(dims[1], dims[size_t(1 + draw(2))]);
  std::vector<uint32_t> coordinate = {uint32_t(draw(2)), uint32_t(draw(3))};
  planfile::ViewT view;
  planfile::StateShardT state;
  uint32_t free = 0; // the next axis to cut over
  for (auto [size, stride] : dims) {
    int64_t begin = draw(size), count = 1 + draw(size - begin);
    bool reversed = draw(4) == 0;
    view.offset += (reversed ? begin + count - 1 : begin) * stride;
    view.strides.push_back(reversed ? -stride : stride);
    state.dims.push_back(std::make_unique<planfile::DimShardingT>());
    int64_t parts = 1;
    if (free < 2 && draw(2)) {
      parts = smallMesh().axes[free]->size;
      state.dims.back()->axes = {free++};
    }
    state.global_shape.push_back(count);
    state.local_shape.push_back((count + parts - 1) / parts);
  }
  return {runtime::Shard(state, smallMesh(), coordinate), std::move(view)};
}

} // namespace llmc::test

#endif // LLMC_TEST_RUNTIME_DRAWNVIEW_H
