#include "lib/onnx/convert/Formula.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"

using namespace llmc::onnximport;
using namespace llmc;
using namespace mlir;
using llmc::support::error;
using llmc::support::Result;

namespace {

// Returns the result's shape of Reshape, Squeeze, Unsqueeze or Flatten.
Result<Shape> newShape(NodeAdaptor &call) {
  Shape from = call.shape(0);
  if (!call.has(0) || (call.has(1) && !call.constant(1)))
    return error("its operands besides the first must depend on shapes and constants only");
  llvm::StringRef op = call.node.op();
  if (op == "Squeeze")
    return squeezedShape(call.node, from, call.constant(1));
  if (op == "Unsqueeze")
    return unsqueezedShape(call.node, from, call.constant(1));
  if (op == "Flatten")
    return flattenedShape(call.node, from);
  auto target = knownIntegers(call, 1);
  if (!target)
    return target;
  return reshapedShape(call.node, from, *target);
}

ConvertResult convertReshape(NodeAdaptor &call) {
  auto shape = newShape(call);
  if (!shape)
    return shape.takeError();
  return single(call.build.reshape(call.value(0), *shape));
}

ConvertResult convertTranspose(NodeAdaptor &call) {
  if (!call.has(0))
    return error("needs an operand");
  auto perm = permutationOf(call.node, call.shape(0).size());
  if (!perm)
    return perm.takeError();
  Value x = call.value(0);
  return single(llvm::is_sorted(*perm) ? x : call.build.transpose(x, *perm));
}

Result<SliceRange> rangeOf(NodeAdaptor &call) {
  std::vector<const HostTensor *> operands;
  for (size_t i = 0; i < call.size(); ++i) {
    if (i && call.has(i) && !call.constant(i))
      return error("starts, ends, axes and steps must depend on shapes and constants only");
    operands.push_back(call.constant(i));
  }
  if (!call.has(0))
    return error("needs an operand");
  return sliceRange(call.node, call.shape(0), operands);
}

ConvertResult convertSlice(NodeAdaptor &call) {
  auto range = rangeOf(call);
  if (!range)
    return range.takeError();
  Value x = call.value(0);
  // Take dims with backward steps by gathers first; one slice does all others.
  for (size_t d = 0; d < range->steps.size(); ++d) {
    if (range->steps[d] >= 0 || range->counts[d] == 0)
      continue;
    Shape at;
    for (int64_t i = 0; i < range->counts[d]; ++i)
      at.push_back(range->starts[d] + i * range->steps[d]);
    x = selectIndices(call, x, d, at);
    range->starts[d] = 0;
    range->steps[d] = 1;
  }
  if (range->counts == Shape(graph::shapeOf(x)))
    return single(x);
  Shape limits = range->starts, steps = range->steps;
  for (size_t d = 0; d < limits.size(); ++d) {
    steps[d] = range->counts[d] > 1 ? steps[d] : 1;
    if (range->counts[d])
      limits[d] += (range->counts[d] - 1) * steps[d] + 1;
  }
  return single(graph::SliceOp::create(
      call.build.builder, call.build.loc,
      RankedTensorType::get(range->counts, graph::elementOf(x)), x, range->starts, limits, steps));
}

Result<SplitParts> partsOf(NodeAdaptor &call) {
  if (!call.has(0) || (call.has(1) && !call.constant(1)))
    return error("the sizes of the parts must depend on shapes and constants only");
  return splitParts(call.node, call.shape(0), call.constant(1));
}

ConvertResult convertSplit(NodeAdaptor &call) {
  auto parts = partsOf(call);
  if (!parts)
    return parts.takeError();
  std::vector<Operand> out;
  Value x = call.value(0);
  int64_t start = 0;
  for (int64_t size : parts->sizes) {
    bool whole = size == call.shape(0)[parts->axis];
    out.push_back(whole ? x : call.build.slice(x, parts->axis, start, start + size));
    start += size;
  }
  return out;
}

ConvertResult convertConcat(NodeAdaptor &call) {
  if (!call.has(0))
    return error("needs an operand");
  auto axis = normalAxis(call.node.integer("axis", 0), call.shape(0).size());
  if (!axis)
    return error("axis ", call.node.integer("axis", 0), " is not one of ",
                 call.shape(0).size(), " dims");
  llvm::SmallVector<Value> parts;
  for (size_t i = 0; i < call.size(); ++i) {
    Shape shape = call.shape(i), first = call.shape(0);
    bool fits = call.has(i) && shape.size() == first.size() &&
                call.element(i) == call.element(0);
    for (size_t d = 0; fits && d < shape.size(); ++d)
      fits = static_cast<int64_t>(d) == *axis || shape[d] == first[d];
    if (!fits)
      return error("shapes ", toText(first), " and ", toText(shape), " do not concatenate");
    if (shape[*axis]) // an empty cache adds nothing
      parts.push_back(call.value(i));
  }
  if (parts.empty())
    return single(call.value(0));
  return single(parts.size() == 1 ? parts[0] : call.build.concat(parts, *axis));
}

ConvertResult convertExpand(NodeAdaptor &call) {
  if (!call.has(0))
    return error("needs an operand");
  auto target = knownIntegers(call, 1);
  if (!target)
    return target.takeError();
  auto shape = broadcastShapes(call.shape(0), *target);
  if (!shape)
    return error("shape ", toText(call.shape(0)), " does not broadcast to ", toText(*target));
  return single(call.build.broadcast(call.value(0), *shape));
}

ConvertResult convertTile(NodeAdaptor &call) {
  if (!call.has(0))
    return error("needs an operand");
  auto repeats = knownIntegers(call, 1);
  if (!repeats)
    return repeats.takeError();
  Shape from = call.shape(0), apart, wide, merged;
  if (repeats->size() != from.size() ||
      llvm::any_of(*repeats, [](int64_t r) { return r < 1; }))
    return error("needs one positive repeat a dim, got ", toText(*repeats));
  for (size_t d = 0; d < from.size(); ++d) {
    apart.append({1, from[d]});
    wide.append({(*repeats)[d], from[d]});
    if (!countElements(wide))
      return error("repeats ", toText(*repeats), " of shape ", toText(from), " are too many");
    merged.push_back((*repeats)[d] * from[d]);
  }
  Value x = call.build.broadcast(call.build.reshape(call.value(0), apart), wide);
  return single(call.build.reshape(x, merged));
}

} // namespace

std::optional<ConvertResult> llmc::onnximport::convertView(NodeAdaptor &call) {
  const View *view = call.view(0);
  std::string op = call.node.qualifiedOp();
  if (!view)
    return std::nullopt;
  auto made = [](View v) -> ConvertResult { return std::vector<Operand>{std::move(v)}; };
  if (op == "Identity" && view->steps.empty() && call.node.proto->output_size() == 1) {
    View named = *view;
    named.name = call.node.proto->output(0);
    return made(std::move(named));
  }
  if (op == "Identity" || (op == "Cast" && elementOfCast(call.node) == Element::F32))
    return made(*view);
  if (op == "Reshape" || op == "Squeeze" || op == "Unsqueeze" || op == "Flatten") {
    auto shape = newShape(call);
    if (!shape)
      return shape.takeError();
    auto reshaped = view->reshaped(*shape);
    return reshaped ? std::optional(made(*reshaped)) : std::nullopt;
  }
  if (op == "Transpose") {
    auto perm = permutationOf(call.node, view->shape.size());
    return perm ? made(view->transposed(*perm)) : ConvertResult(perm.takeError());
  }
  if (op == "Slice") {
    auto range = rangeOf(call);
    bool dense = range && llvm::all_of(range->steps, [](int64_t s) { return s == 1; });
    // Slices of one element or none are no parameters.
    if (!dense || *countElements(range->counts) < 2)
      return std::nullopt;
    return made(view->sliced(range->starts, range->counts));
  }
  if (op != "Split")
    return std::nullopt;
  auto parts = partsOf(call);
  if (!parts)
    return parts.takeError();
  std::vector<Operand> out;
  Shape starts(view->shape.size(), 0), counts = view->shape;
  for (int64_t size : parts->sizes) {
    counts[parts->axis] = size;
    if (*countElements(counts) < 2)
      return std::nullopt;
    out.push_back(view->sliced(starts, counts));
    starts[parts->axis] += size;
  }
  return out;
}

ConvertFunction llmc::onnximport::findMovementConverter(llvm::StringRef op) {
  static const llvm::StringMap<ConvertFunction> table = {
      {"Reshape", convertReshape},     {"Squeeze", convertReshape},
      {"Unsqueeze", convertReshape},   {"Flatten", convertReshape},
      {"Transpose", convertTranspose}, {"Slice", convertSlice},
      {"Split", convertSplit},         {"Concat", convertConcat},
      {"Expand", convertExpand},       {"Tile", convertTile},
  };
  return table.lookup(op);
}
