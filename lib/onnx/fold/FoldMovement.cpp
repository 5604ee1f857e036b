// Evaluates ops that move or reshape constants, and their shape arithmetic.
#include "lib/onnx/fold/Fold.h"
#include "lib/onnx/file/Model.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"

#include <algorithm>
#include <cmath>
#include <numeric>

using namespace llmc;
using namespace llmc::onnximport;
using llmc::support::error;
using llmc::support::Result;

llmc::support::Status llmc::onnximport::checkHostSize(llvm::ArrayRef<int64_t> shape) {
  if (!countElements(shape, maxHostElements))
    return error("a constant of shape ", toText(shape), " is larger than the importer holds (",
                 maxHostElements,
                 " elements): use fewer data-parallel ranks, a smaller micro-batch or sequence");
  return support::ok();
}

std::optional<Element> llmc::onnximport::elementOfCast(const Node &node) {
  return elementOf(static_cast<int32_t>(node.integer("to", 0)));
}

Result<Shape> llmc::onnximport::reshapedShape(const Node &node, llvm::ArrayRef<int64_t> from,
                                              llvm::ArrayRef<int64_t> target) {
  Shape out(target);
  bool zeros = node.integer("allowzero", 0);
  std::optional<size_t> open;
  for (size_t i = 0; i < out.size(); ++i) {
    if (out[i] == 0 && !zeros)
      out[i] = i < from.size() ? from[i] : 0;
    if (out[i] != -1)
      continue;
    if (open)
      return error("target shape ", toText(target), " has two -1");
    open = i;
    out[i] = 1;
  }
  auto have = countElements(from), known = countElements(out);
  if (open && have && known && *known && *have % *known == 0) {
    out[*open] = *have / *known;
    known = have;
  }
  if (!have || have != known)
    return error("shape ", toText(from), " cannot become ", toText(target));
  return out;
}

Result<Shape> llmc::onnximport::axesOf(const Node &node, const HostTensor *values, int64_t rank) {
  Shape axes;
  if (values && !values->isFloat())
    axes.assign(values->ints.begin(), values->ints.end());
  else if (auto attribute = node.integers("axes"))
    axes = *attribute;
  for (int64_t &axis : axes) {
    auto normal = normalAxis(axis, rank);
    if (!normal)
      return error("axis ", axis, " is not one of ", rank, " dims");
    axis = *normal;
  }
  Shape sorted = axes;
  llvm::sort(sorted);
  if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end())
    return error("axes ", toText(axes), " name one dim twice");
  return axes;
}

Result<Shape> llmc::onnximport::squeezedShape(const Node &node, llvm::ArrayRef<int64_t> from,
                                              const HostTensor *axes) {
  auto drop = axesOf(node, axes, from.size());
  if (!drop)
    return drop;
  bool all = !axes && !node.has("axes");
  Shape out;
  for (size_t i = 0; i < from.size(); ++i) {
    bool dropped = all ? from[i] == 1 : llvm::is_contained(*drop, static_cast<int64_t>(i));
    if (dropped && from[i] != 1)
      return error("axis ", i, " of shape ", toText(from), " must have size 1");
    if (!dropped)
      out.push_back(from[i]);
  }
  return out;
}

Result<Shape> llmc::onnximport::unsqueezedShape(const Node &node, llvm::ArrayRef<int64_t> from,
                                                const HostTensor *axes) {
  size_t added = axes ? axes->size() : node.integers("axes").value_or(Shape()).size();
  auto at = axesOf(node, axes, from.size() + added);
  if (!at)
    return at;
  Shape out;
  size_t next = 0;
  for (size_t i = 0; i < from.size() + at->size(); ++i)
    out.push_back(llvm::is_contained(*at, static_cast<int64_t>(i)) ? 1 : from[next++]);
  return out;
}

Result<Shape> llmc::onnximport::flattenedShape(const Node &node, llvm::ArrayRef<int64_t> from) {
  int64_t rank = from.size(), axis = node.integer("axis", 1);
  if (axis < -rank || axis > rank)
    return error("axis ", axis, " is not one of ", rank, " dims");
  axis = axis < 0 ? axis + rank : axis;
  return Shape{*countElements(from.take_front(axis)), *countElements(from.drop_front(axis))};
}

Result<Shape> llmc::onnximport::permutationOf(const Node &node, int64_t rank) {
  Shape perm(rank);
  for (int64_t i = 0; i < rank; ++i)
    perm[i] = rank - 1 - i;
  if (auto given = node.integers("perm"))
    perm = *given;
  Shape sorted = perm, identity(rank);
  llvm::sort(sorted);
  std::iota(identity.begin(), identity.end(), 0);
  if (sorted != identity)
    return error("perm ", toText(perm), " is no permutation of ", rank, " dims");
  return perm;
}

Result<SplitParts> llmc::onnximport::splitParts(const Node &node, llvm::ArrayRef<int64_t> from,
                                                const HostTensor *sizes) {
  SplitParts parts;
  auto axis = normalAxis(node.integer("axis", 0), from.size());
  if (!axis)
    return error("axis ", node.integer("axis", 0), " is not one of ", from.size(), " dims");
  parts.axis = *axis;
  int64_t count = node.proto->output_size(), size = from[*axis];
  if (sizes && !sizes->isFloat())
    parts.sizes.assign(sizes->ints.begin(), sizes->ints.end());
  else if (auto attribute = node.integers("split"))
    parts.sizes = *attribute;
  else if (count > 0) {
    // Parts are equal, but the last ones may be smaller.
    int64_t part = (size + count - 1) / count;
    for (int64_t i = 0; i < count; ++i)
      parts.sizes.push_back(std::clamp<int64_t>(size - i * part, 0, part));
  }
  auto negative = [](int64_t n) { return n < 0; };
  int64_t sum = std::accumulate(parts.sizes.begin(), parts.sizes.end(), int64_t(0));
  if (sum != size || static_cast<int64_t>(parts.sizes.size()) != count ||
      llvm::any_of(parts.sizes, negative))
    return error("parts ", toText(parts.sizes), " do not split size ", size, " into ", count);
  return parts;
}

Result<SliceRange> llmc::onnximport::sliceRange(const Node &node, llvm::ArrayRef<int64_t> from,
                                                llvm::ArrayRef<const HostTensor *> operands) {
  auto list = [&](size_t operand, const char *attribute) -> Shape {
    const HostTensor *t = operand < operands.size() ? operands[operand] : nullptr;
    if (t && !t->isFloat())
      return Shape(t->ints.begin(), t->ints.end());
    return node.integers(attribute).value_or(Shape());
  };
  Shape starts = list(1, "starts"), ends = list(2, "ends"), axes = list(3, "axes"),
        steps = list(4, "steps");
  if (axes.empty())
    for (size_t i = 0; i < starts.size(); ++i)
      axes.push_back(i);
  if (steps.empty())
    steps.assign(starts.size(), 1);
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size())
    return error("starts, ends, axes and steps differ in length");
  SliceRange out{Shape(from.size(), 0), Shape(from.size(), 1), Shape(from)};
  for (size_t i = 0; i < starts.size(); ++i) {
    auto axis = normalAxis(axes[i], from.size());
    if (!axis || steps[i] == 0)
      return error(axis ? "step 0"
                        : "axis " + std::to_string(axes[i]) + " is not one of " +
                              std::to_string(from.size()) + " dims");
    int64_t size = from[*axis], step = std::max<int64_t>(steps[i], -INT64_MAX);
    bool forward = step > 0;
    // Sentinels such as INT64_MIN are clamped before anything is added.
    auto bound = [&](int64_t v, int64_t low, int64_t high) {
      v = v < 0 ? std::max(v, -size - 1) + size : v;
      return std::clamp(v, low, high);
    };
    int64_t first = forward ? bound(starts[i], 0, size) : bound(starts[i], -1, size - 1);
    int64_t last = forward ? bound(ends[i], 0, size) : bound(ends[i], -1, size - 1);
    int64_t span = forward ? last - first : first - last;
    int64_t stride = forward ? step : -step;
    out.starts[*axis] = std::max<int64_t>(first, 0);
    out.steps[*axis] = step;
    out.counts[*axis] = span > 0 ? (span - 1) / stride + 1 : 0;
  }
  return out;
}

namespace {

FoldResult one(HostTensor tensor) { return std::vector<HostTensor>{std::move(tensor)}; }

FoldResult withShape(const HostTensor &in, Result<Shape> shape) {
  if (!shape)
    return shape.takeError();
  HostTensor out = in;
  out.shape = *shape;
  return one(std::move(out));
}

#define NEED(count)                                                                                \
  for (size_t operand = 0; operand < (count); ++operand)                                           \
    if (!in.get(operand))                                                                          \
      return error("operand ", operand, " is missing");

FoldResult foldReshape(const FoldInput &in) {
  NEED(2)
  return withShape(*in.get(0), reshapedShape(in.node, in.get(0)->shape, in.get(1)->ints));
}
FoldResult foldSqueeze(const FoldInput &in) {
  NEED(1)
  return withShape(*in.get(0), squeezedShape(in.node, in.get(0)->shape, in.get(1)));
}
FoldResult foldUnsqueeze(const FoldInput &in) {
  NEED(1)
  return withShape(*in.get(0), unsqueezedShape(in.node, in.get(0)->shape, in.get(1)));
}
FoldResult foldFlatten(const FoldInput &in) {
  NEED(1)
  return withShape(*in.get(0), flattenedShape(in.node, in.get(0)->shape));
}

FoldResult foldTranspose(const FoldInput &in) {
  NEED(1)
  auto perm = permutationOf(in.node, in.get(0)->shape.size());
  if (!perm)
    return perm.takeError();
  Shape own = rowMajor(in.get(0)->shape), shape, strides;
  for (int64_t d : *perm) {
    shape.push_back(in.get(0)->shape[d]);
    strides.push_back(own[d]);
  }
  return one(takeStrided(*in.get(0), shape, strides));
}

FoldResult foldSlice(const FoldInput &in) {
  NEED(1)
  auto range = sliceRange(in.node, in.get(0)->shape, in.operands);
  if (!range)
    return range.takeError();
  Shape strides = rowMajor(in.get(0)->shape);
  int64_t offset = 0;
  for (size_t d = 0; d < strides.size(); ++d) {
    offset += range->starts[d] * strides[d];
    strides[d] = range->counts[d] > 1 ? strides[d] * range->steps[d] : 0;
  }
  return one(takeStrided(*in.get(0), range->counts, strides, offset));
}

FoldResult foldSplit(const FoldInput &in) {
  NEED(1)
  auto parts = splitParts(in.node, in.get(0)->shape, in.get(1));
  if (!parts)
    return parts.takeError();
  std::vector<HostTensor> out;
  Shape strides = rowMajor(in.get(0)->shape), shape = in.get(0)->shape;
  int64_t offset = 0;
  for (int64_t size : parts->sizes) {
    shape[parts->axis] = size;
    out.push_back(takeStrided(*in.get(0), shape, strides, offset));
    offset += size * strides[parts->axis];
  }
  return out;
}

FoldResult foldConcat(const FoldInput &in) {
  NEED(std::max<size_t>(1, in.size()))
  Shape shape = in.get(0)->shape;
  auto axis = normalAxis(in.node.integer("axis", 0), shape.size());
  if (!axis)
    return error("axis ", in.node.integer("axis", 0), " is not one of ", shape.size(), " dims");
  for (size_t i = 1; i < in.size(); ++i) {
    Shape next = in.get(i)->shape;
    bool agrees = next.size() == shape.size() && in.get(i)->element == in.get(0)->element;
    for (size_t d = 0; agrees && d < next.size(); ++d)
      agrees = static_cast<int64_t>(d) == *axis || next[d] == shape[d];
    if (!agrees)
      return error("shapes ", toText(shape), " and ", toText(next), " do not concatenate");
    shape[*axis] += next[*axis];
  }
  if (auto s = checkHostSize(shape); !s)
    return s.takeError();
  HostTensor out(in.get(0)->element, shape);
  Shape strides = rowMajor(shape);
  int64_t offset = 0;
  for (const HostTensor *part : in.operands) {
    forEachElement(part->shape, {strides}, [&](int64_t n, llvm::ArrayRef<int64_t> at) {
      if (out.isFloat())
        out.floats[offset + at[0]] = part->floats[n];
      else
        out.ints[offset + at[0]] = part->ints[n];
    });
    offset += part->shape[*axis] * strides[*axis];
  }
  return one(std::move(out));
}

FoldResult foldExpand(const FoldInput &in) {
  NEED(2)
  auto shape = broadcastShapes(in.get(0)->shape, in.get(1)->ints);
  if (!shape)
    return error("shape ", toText(in.get(0)->shape), " does not broadcast to ",
                 toText(in.get(1)->ints));
  if (auto s = checkHostSize(*shape); !s)
    return s.takeError();
  return one(takeStrided(*in.get(0), *shape, broadcastStrides(in.get(0)->shape, *shape)));
}

FoldResult foldTile(const FoldInput &in) {
  NEED(2)
  HostTensor out = *in.get(0);
  if (in.get(1)->ints.size() != out.shape.size())
    return error("needs one repeat a dim");
  for (size_t d = 0; d < out.shape.size(); ++d) {
    Shape shape = out.shape, strides = rowMajor(shape);
    // Insert a dim for the repeats and merge it with its successor.
    shape.insert(shape.begin() + d, in.get(1)->ints[d]);
    strides.insert(strides.begin() + d, 0);
    if (auto s = checkHostSize(shape); !s)
      return s.takeError();
    Shape merged = out.shape;
    merged[d] *= in.get(1)->ints[d];
    out = takeStrided(out, shape, strides);
    out.shape = merged;
  }
  return one(std::move(out));
}

FoldResult foldConstantOfShape(const FoldInput &in) {
  NEED(1)
  Shape shape(in.get(0)->ints.begin(), in.get(0)->ints.end());
  if (auto s = checkHostSize(shape); !s)
    return s.takeError();
  const auto *value = in.node.find("value");
  if (!value)
    return one(HostTensor(Element::F32, shape));
  // Names::foldKnown has appended the attribute's tensor to the operands.
  NEED(2)
  if (in.get(1)->size() != 1)
    return error("value must have one element");
  HostTensor scalar = *in.get(1);
  scalar.shape.clear();
  return one(takeStrided(scalar, shape, Shape(shape.size(), 0)));
}

FoldResult foldRange(const FoldInput &in) {
  NEED(3)
  for (int i = 0; i < 3; ++i)
    if (in.get(i)->size() != 1)
      return error("operands must be scalars");
  double start = in.get(0)->number(0), limit = in.get(1)->number(0), delta = in.get(2)->number(0);
  if (delta == 0)
    return error("delta must not be 0");
  double count = std::max(0.0, std::ceil((limit - start) / delta));
  if (!(count <= maxHostElements))
    return checkHostSize({INT64_MAX}).takeError();
  HostTensor out(in.get(0)->element, {static_cast<int64_t>(count)});
  for (int64_t i = 0; i < out.size(); ++i)
    out.set(i, start + i * delta);
  return one(std::move(out));
}

} // namespace

FoldFunction llmc::onnximport::findMovementFold(llvm::StringRef op) {
  static const llvm::StringMap<FoldFunction> table = {
      {"Reshape", foldReshape},     {"Squeeze", foldSqueeze},
      {"Unsqueeze", foldUnsqueeze}, {"Flatten", foldFlatten},
      {"Transpose", foldTranspose}, {"Slice", foldSlice},
      {"Split", foldSplit},         {"Concat", foldConcat},
      {"Expand", foldExpand},       {"Tile", foldTile},
      {"Range", foldRange},         {"ConstantOfShape", foldConstantOfShape},
  };
  return table.lookup(op);
}
