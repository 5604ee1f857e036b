// Maps the elements of a rank's shard of a state, a result or routes to their positions in the whole
// tensor. The test is test/runtime/StatesTest.cpp.
#ifndef LLMC_RUNTIME_PLAN_SHARD_H
#define LLMC_RUNTIME_PLAN_SHARD_H

#include "lib/planfile/Program.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace llmc::runtime {

// Maps each dim to the mesh axes that shard it, the major one first.
using DimShardings = std::vector<std::unique_ptr<planfile::DimShardingT>>;

// Describes a rank's shard of a state or a result: the first element along each dim, and how
// many of its local_shape are not padding (0 where the shard is all padding).
struct Shard {
  template <class Binding> // StateShardT, OutputBindingT or RoutesT
  Shard(const Binding &binding, const planfile::MeshT &mesh,
        const std::vector<uint32_t> &coordinate)
      : Shard(binding.global_shape, binding.local_shape, binding.dims, mesh, coordinate) {}
  // Computes the shard at `coordinate`; dims past the last of `cuts` are replicated.
  Shard(const std::vector<int64_t> &global, const std::vector<int64_t> &local,
        const DimShardings &cuts, const planfile::MeshT &mesh,
        const std::vector<uint32_t> &coordinate);

  std::vector<int64_t> start, valid, local;
};

// Returns whether, of all ranks of a stage that hold the same shard, this is the one with the
// smallest coordinates.
bool isFirstHolder(const DimShardings &cuts, uint32_t stageAxis, std::vector<uint32_t> coordinate);
// Returns the same for a state, also if only some ranks of its stage hold it (only_axes), or
// each holds a range of a flat buffer. Returns false if the rank holds nothing of it.
bool isFirstHolder(const planfile::ProgramT &program, uint32_t stage,
                   const planfile::StateShardT &state, std::vector<uint32_t> coordinate);

// Describes what a rank holds of a state: elements [first, first + count) of the local shard,
// row-major, which begin at element `at` of the state's buffer.
struct HeldRange {
  int64_t first = 0, count = 0, at = 0;
};
// Returns the range that the rank at `coordinate` holds; count is 0 if it holds nothing.
HeldRange heldRangeOf(const planfile::ProgramT &program, uint32_t stage,
            const planfile::StateShardT &state, const std::vector<uint32_t> &coordinate);

// Describes a box of what is held: element e of `shard`, row-major in its local shape, is
// element at + e of the state's buffer.
struct HeldBox {
  Shard shard;
  int64_t at = 0;
};
// Returns the held range as disjoint boxes.
std::vector<HeldBox> heldBoxes(const planfile::ProgramT &program, uint32_t stage,
                               const planfile::StateShardT &state,
                               const std::vector<uint32_t> &coordinate);

// Returns the view of a whole, contiguous tensor, as the source of its shards.
planfile::ViewT denseView(const std::vector<int64_t> &shape);

// Calls f(localElement, sourceElement, count, sourceStride) for every run of elements of
// `shard` along its last dim, without padding: element localElement + i of the shard is
// element sourceElement + i * sourceStride of the source.
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

#endif // LLMC_RUNTIME_PLAN_SHARD_H
