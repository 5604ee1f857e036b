#include "lib/planfile/Inputs.h"

using namespace llmc;
using namespace llmc::planfile;

namespace {

// Returns the axes that cut dim `d`; rows (dim 0) are cut over the batch axes.
const std::vector<uint32_t> &axesOf(const InputBindingT &input, size_t d) {
  static const std::vector<uint32_t> none;
  if (d == 0)
    return input.batch_axes;
  return d - 1 < input.dims.size() ? input.dims[d - 1]->axes : none;
}

} // namespace

std::vector<int64_t> planfile::wholeShape(const MeshT &mesh, const InputBindingT &input) {
  std::vector<int64_t> shape = input.local_shape;
  for (size_t d = 0; d < shape.size(); ++d)
    for (uint32_t axis : axesOf(input, d))
      shape[d] *= mesh.axes[axis]->size;
  return shape;
}

std::vector<uint64_t> planfile::permutedIndices(const MeshT &mesh, const InputBindingT &input) {
  if (input.permuted_dim == 0)
    return {};
  std::vector<int64_t> shape = wholeShape(mesh, input);
  uint64_t behind = 1, row = 1;
  for (size_t d = 1; d < shape.size(); ++d) {
    row *= static_cast<uint64_t>(shape[d]);
    if (d > input.permuted_dim)
      behind *= static_cast<uint64_t>(shape[d]);
  }
  auto size = static_cast<uint64_t>(shape[input.permuted_dim]);
  uint64_t block = size / input.block_order.size();
  std::vector<uint64_t> blockPlace(input.block_order.size());
  for (uint64_t b = 0; b < blockPlace.size(); ++b)
    blockPlace[input.block_order[b]] = b;
  std::vector<uint64_t> places(row);
  for (uint64_t i = 0; i < row; ++i) {
    uint64_t at = i / behind % size, moved = blockPlace[at / block] * block + at % block;
    places[i] = i + moved * behind - at * behind;
  }
  return places;
}

uint64_t planfile::firstElement(const MeshT &mesh, const InputBindingT &input,
                                const std::vector<uint32_t> &coordinate) {
  std::vector<int64_t> shape = wholeShape(mesh, input);
  uint64_t first = 0;
  for (size_t d = 0; d < shape.size(); ++d) {
    uint64_t part = 0;
    for (uint32_t axis : axesOf(input, d))
      part = part * mesh.axes[axis]->size + coordinate[axis];
    first = first * static_cast<uint64_t>(shape[d]) +
            part * static_cast<uint64_t>(input.local_shape[d]);
  }
  return first;
}
