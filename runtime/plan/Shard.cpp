#include "runtime/plan/Shard.h"

#include <algorithm>

using namespace llmc;
using namespace llmc::runtime;

Shard::Shard(const std::vector<int64_t> &global, const std::vector<int64_t> &local,
             const DimShardings &cuts, const planfile::MeshT &mesh,
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

planfile::ViewT runtime::denseView(const std::vector<int64_t> &shape) {
  planfile::ViewT view;
  view.strides.resize(shape.size());
  int64_t stride = 1;
  for (size_t d = shape.size(); d-- > 0; stride *= shape[d])
    view.strides[d] = stride;
  return view;
}

bool runtime::isFirstHolder(const DimShardings &cuts, uint32_t stageAxis,
                            std::vector<uint32_t> coordinate) {
  coordinate[stageAxis] = 0;
  for (const auto &dim : cuts)
    for (uint32_t axis : dim->axes)
      coordinate[axis] = 0;
  return std::all_of(coordinate.begin(), coordinate.end(), [](uint32_t c) { return c == 0; });
}

namespace {

uint32_t rowMajor(const planfile::MeshT &mesh, const std::vector<uint32_t> &axes,
                  const std::vector<uint32_t> &coordinate) {
  uint32_t place = 0;
  for (uint32_t axis : axes)
    place = place * mesh.axes[axis]->size + coordinate[axis];
  return place;
}

// Splits a range of a row-major shape into boxes and appends each to `to`.
class Boxes {
public:
  Boxes(const Shard &whole, int64_t at, std::vector<HeldBox> &to) : whole(whole), at(at), to(to) {
    inner.assign(whole.local.size() + 1, 1);
    for (size_t d = whole.local.size(); d-- > 0;)
      inner[d] = inner[d + 1] * whole.local[d];
    first.assign(whole.local.size(), 0);
    size = whole.local;
  }

  // Adds elements [low, high) of the dims from `d` on, at the indices `first` of the dims
  // before.
  void add(size_t d, int64_t low, int64_t high) {
    if (low >= high)
      return;
    if (low == 0 && high == inner[d])
      return emit(d);
    int64_t step = inner[d + 1], a = low / step, b = high / step;
    if (a == b)
      return slab(d, a, low % step, high % step);
    if (low % step != 0)
      slab(d, a++, low % step, step);
    if (a < b) {
      first[d] = a, size[d] = b - a;
      emit(d + 1);
    }
    slab(d, b, 0, high % step);
  }

private:
  void slab(size_t d, int64_t index, int64_t low, int64_t high) {
    first[d] = index, size[d] = 1;
    add(d + 1, low, high);
  }
  // Appends a box in which the dims from `d` on are whole.
  void emit(size_t d) {
    HeldBox box{whole, at};
    for (size_t i = 0; i < first.size(); ++i) {
      int64_t begin = i < d ? first[i] : 0, count = i < d ? size[i] : whole.local[i];
      box.shard.start[i] += begin;
      box.shard.valid[i] = std::clamp<int64_t>(whole.valid[i] - begin, 0, count);
      box.at += begin * inner[i + 1];
    }
    to.push_back(std::move(box));
  }

  const Shard &whole;
  const int64_t at;
  std::vector<HeldBox> &to;
  std::vector<int64_t> inner, first, size;
};

} // namespace

bool runtime::isFirstHolder(const planfile::ProgramT &program, uint32_t stage,
                            const planfile::StateShardT &state,
                            std::vector<uint32_t> coordinate) {
  if (heldRangeOf(program, stage, state, coordinate).count == 0)
    return false;
  for (uint32_t axis : state.only_axes)
    coordinate[axis] = 0;
  if (state.flat)
    for (uint32_t axis : program.stages[stage]->flat_groups[state.flat->group]->axes)
      coordinate[axis] = 0;
  return isFirstHolder(state.dims, program.stage_axis, std::move(coordinate));
}

HeldRange runtime::heldRangeOf(const planfile::ProgramT &program, uint32_t stage,
                     const planfile::StateShardT &state,
                     const std::vector<uint32_t> &coordinate) {
  int64_t count = 1;
  for (int64_t dim : state.local_shape)
    count *= dim;
  if (!state.only_axes.empty() &&
      rowMajor(*program.mesh, state.only_axes, coordinate) != state.only_at)
    return {};
  if (!state.flat)
    return {0, count, 0};
  const planfile::FlatGroupT &group = *program.stages[stage]->flat_groups[state.flat->group];
  auto length = static_cast<int64_t>(group.length), begin = static_cast<int64_t>(state.flat->begin);
  int64_t from = rowMajor(*program.mesh, group.axes, coordinate) * length;
  int64_t low = std::max(from, begin), high = std::min(from + length, begin + count);
  return low < high ? HeldRange{low - begin, high - low, low - from} : HeldRange{};
}

std::vector<HeldBox> runtime::heldBoxes(const planfile::ProgramT &program, uint32_t stage,
                                        const planfile::StateShardT &state,
                                        const std::vector<uint32_t> &coordinate) {
  HeldRange held = heldRangeOf(program, stage, state, coordinate);
  Shard whole(state, *program.mesh, coordinate);
  std::vector<HeldBox> boxes;
  Boxes(whole, held.at - held.first, boxes).add(0, held.first, held.first + held.count);
  return boxes;
}
