// Converts padding, triangular masks, and moves between space and depth.
#include "lib/onnx/convert/Formula.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"

using namespace llmc::onnximport;
using namespace llmc;
using namespace mlir;
using llmc::support::error;
using llmc::support::Result;

namespace {

struct Pads {
  Shape low, high; // elements before and after each dim; negative: elements are removed
};

// Returns the pads of the attribute (before 11) or the operands, of which `axes` (from 18) may
// leave dims out. Fails unless they are known.
Result<Pads> padsOf(NodeAdaptor &call) {
  int64_t rank = call.shape(0).size();
  Shape pads = call.node.integers("pads").value_or(Shape()), axes;
  if (call.has(1)) {
    auto given = knownIntegers(call, 1);
    if (!given)
      return given.takeError();
    pads = *given;
  }
  if (call.has(3)) {
    auto given = knownIntegers(call, 3);
    if (!given)
      return given.takeError();
    axes = *given;
  } else {
    for (int64_t d = 0; d < rank; ++d)
      axes.push_back(d);
  }
  if (pads.size() != 2 * axes.size())
    return error("needs ", 2 * axes.size(), " pads, got ", toText(pads));
  Pads out{Shape(rank, 0), Shape(rank, 0)};
  for (size_t i = 0; i < axes.size(); ++i) {
    auto axis = normalAxis(axes[i], rank);
    if (!axis)
      return error("axis ", axes[i], " is not one of ", rank, " dims");
    out.low[*axis] = pads[i];
    out.high[*axis] = pads[i + axes.size()];
    int64_t limit = int64_t(1) << 40;
    if (std::max(std::abs(pads[i] / 2), std::abs(pads[i + axes.size()] / 2)) > limit)
      return error("pads ", toText(pads), " are out of range");
  }
  return out;
}

// Returns the index of the element at position `at` of a dim of `size` that is extended beyond its
// ends by `mode`: edge, wrap or reflect.
int64_t continued(llvm::StringRef mode, int64_t at, int64_t size) {
  if (mode == "edge")
    return std::clamp<int64_t>(at, 0, size - 1);
  int64_t period = mode == "wrap" ? size : std::max<int64_t>(2 * size - 2, 1);
  at = ((at % period) + period) % period;
  return at < size ? at : period - at;
}

Result<Value> padded(NodeAdaptor &call, Value x, const Pads &pads, llvm::StringRef mode) {
  for (size_t d = 0; d < pads.low.size(); ++d) {
    int64_t size = graph::shapeOf(x)[d], count = size + pads.low[d] + pads.high[d];
    if (count < 0 || (size == 0 && count > 0))
      return error("pads of dim ", d, " leave ", count, " of ", size, " elements");
    if (auto s = checkHostSize({count}); !s)
      return s.takeError();
    Shape at;
    for (int64_t i = 0; i < count; ++i)
      at.push_back(continued(mode, i - pads.low[d], size));
    x = selectIndices(call, x, d, at);
  }
  return x;
}

Result<Value> paddedWith(NodeAdaptor &call, Value x, Pads pads, Value fill) {
  graph::Build &build = call.build;
  size_t rank = pads.low.size();
  for (size_t d = 0; d < rank; ++d) {
    int64_t size = graph::shapeOf(x)[d];
    int64_t first = std::min(size, std::max<int64_t>(-pads.low[d], 0));
    int64_t last = std::max(first, size - std::max<int64_t>(-pads.high[d], 0));
    if (size + pads.low[d] + pads.high[d] < 0)
      return error("pads of dim ", d, " cut more than its ", size, " elements");
    if (last - first != size)
      x = build.slice(x, d, first, last);
    pads.low[d] = std::max<int64_t>(pads.low[d], 0);
    pads.high[d] = std::max<int64_t>(pads.high[d], 0);
  }
  Shape shape(graph::shapeOf(x));
  for (size_t d = 0; d < rank; ++d)
    shape[d] += pads.low[d] + pads.high[d];
  if (!countElements(shape))
    return error("result of shape ", toText(shape), " is too large");
  bool logical = graph::elementOf(x).isInteger(1);
  auto pad = [&](Value v) -> Value {
    return graph::PadOp::create(build.builder, build.loc,
                                RankedTensorType::get(shape, graph::elementOf(v)), v, pads.low,
                                pads.high, Shape(rank, 0));
  };
  Value out = logical ? build.cast(pad(integers(call, x)), graph::elementOf(x)) : pad(x);
  if (!fill)
    return out;
  Value ones = build.broadcast(call.scalar(1), graph::shapeOf(x));
  Value kept = build.compare(pad(ones), call.scalar(0), graph::Predicate::gt);
  return build.select(kept, out, fill);
}

ConvertResult convertPad(NodeAdaptor &call) {
  if (!call.has(0))
    return error("needs an operand");
  auto pads = padsOf(call);
  if (!pads)
    return pads.takeError();
  std::string mode = call.node.text("mode", "constant");
  Value x = call.value(0), fill;
  if (mode == "edge" || mode == "reflect" || mode == "wrap") {
    auto out = padded(call, x, *pads, mode);
    return out ? single(*out) : ConvertResult(out.takeError());
  }
  if (mode != "constant")
    return error("mode '", mode, "' is not supported: constant, edge, reflect and wrap are");
  if (call.has(2)) {
    if (*countElements(call.shape(2)) != 1 || call.element(2) != call.element(0))
      return error("the constant must be a scalar of the operand's type");
    const HostTensor *known = call.compact(2);
    if (!known || known->number(0) != 0)
      fill = call.build.reshape(call.value(2), {});
  } else if (double value = call.node.number("value", 0); value != 0) {
    fill = call.scalarLike(value, x);
  }
  auto out = paddedWith(call, x, *pads, fill);
  return out ? single(*out) : ConvertResult(out.takeError());
}

ConvertResult convertTrilu(NodeAdaptor &call) {
  const HostTensor *k = call.constant(1);
  Shape shape = call.shape(0);
  bool known = !call.has(1) || (k && k->size() == 1 && !k->isFloat());
  if (!call.has(0) || shape.size() < 2 || !known)
    return error("needs a matrix, and k known at import");
  if (auto s = checkHostSize(llvm::ArrayRef<int64_t>(shape).take_back(2)); !s)
    return s.takeError();
  int64_t columns = shape.back(), rows = shape[shape.size() - 2], shift = k ? k->ints[0] : 0;
  bool upper = call.node.integer("upper", 1);
  HostTensor keep(Element::Bool, {rows, columns});
  for (int64_t n = 0; n < keep.size(); ++n) {
    int64_t offset = n % columns - n / columns;
    keep.ints[n] = upper ? offset >= shift : offset <= shift;
  }
  Value x = call.value(0), mask = call.materialize(keep);
  if (call.isBool(0))
    return single(make<graph::AndOp>(call, x, mask));
  return single(call.build.select(mask, x, call.scalarLike(0, x)));
}

Result<int64_t> blockOf(NodeAdaptor &call) {
  int64_t block = call.node.integer("blocksize", 0);
  if (!call.has(0) || call.shape(0).size() != 4 || block < 1 || block > (1 << 20))
    return error("needs four dims and a positive blocksize, got ", block);
  return block;
}

ConvertResult convertDepthToSpace(NodeAdaptor &call) {
  auto b = blockOf(call);
  if (!b)
    return b.takeError();
  Shape s = call.shape(0);
  if (s[1] % (*b * *b))
    return error("depth ", s[1], " is not divisible by ", *b * *b);
  int64_t depth = s[1] / (*b * *b);
  bool byColumns = call.node.text("mode", "DCR") == "CRD";
  Value x = byColumns ? call.build.reshape(call.value(0), {s[0], depth, *b, *b, s[2], s[3]})
                      : call.build.reshape(call.value(0), {s[0], *b, *b, depth, s[2], s[3]});
  x = call.build.transpose(x, byColumns ? Shape{0, 1, 4, 2, 5, 3} : Shape{0, 3, 4, 1, 5, 2});
  return single(call.build.reshape(x, {s[0], depth, s[2] * *b, s[3] * *b}));
}

ConvertResult convertSpaceToDepth(NodeAdaptor &call) {
  auto b = blockOf(call);
  if (!b)
    return b.takeError();
  Shape s = call.shape(0);
  if (s[2] % *b || s[3] % *b)
    return error("shape ", toText(s), " is not made of blocks of ", *b);
  int64_t rows = s[2] / *b, columns = s[3] / *b;
  Value x = call.build.reshape(call.value(0), {s[0], s[1], rows, *b, columns, *b});
  bool byColumns = call.node.text("mode", "DCR") == "CRD";
  x = call.build.transpose(x, byColumns ? Shape{0, 1, 3, 5, 2, 4} : Shape{0, 3, 5, 1, 2, 4});
  return single(call.build.reshape(x, {s[0], s[1] * *b * *b, rows, columns}));
}

// Crops or pads with zeros, evenly at both ends, to a shape.
ConvertResult convertCenterCropPad(NodeAdaptor &call) {
  if (!call.has(0))
    return error("needs an operand");
  auto target = knownIntegers(call, 1);
  if (!target)
    return target.takeError();
  int64_t rank = call.shape(0).size();
  auto axes = axesOf(call.node, nullptr, rank);
  if (!axes)
    return axes.takeError();
  if (!call.node.has("axes"))
    for (int64_t d = 0; d < rank; ++d)
      axes->push_back(d);
  if (axes->size() != target->size())
    return error("needs one size for each axis, got ", toText(*target));
  Pads pads{Shape(rank, 0), Shape(rank, 0)};
  for (size_t i = 0; i < axes->size(); ++i) {
    int64_t size = call.shape(0)[(*axes)[i]], want = (*target)[i];
    if (want < 0)
      return error("sizes ", toText(*target), " must not be negative");
    int64_t more = want - size; // an odd element is at the end
    pads.low[(*axes)[i]] = more >= 0 ? more / 2 : -(-more / 2);
    pads.high[(*axes)[i]] = more - pads.low[(*axes)[i]];
  }
  auto out = paddedWith(call, call.value(0), pads, Value());
  return out ? single(*out) : ConvertResult(out.takeError());
}

} // namespace

ConvertFunction llmc::onnximport::findRegionConverter(llvm::StringRef op) {
  static const llvm::StringMap<ConvertFunction> table = {
      {"Pad", convertPad},
      {"Trilu", convertTrilu},
      {"DepthToSpace", convertDepthToSpace},
      {"SpaceToDepth", convertSpaceToDepth},
      {"CenterCropPad", convertCenterCropPad},
  };
  return table.lookup(op);
}
