#include "lib/onnx/convert/Attention.h"

#include <cmath>
#include <limits>

using namespace llmc::onnximport;
using namespace llmc;
using namespace mlir;
using llmc::support::error;
using llmc::support::Result;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// Bounds terms that mask a key: one at or below this leaves a probability of 0 beside another key.
constexpr double hidden = -9000;

bool sees(const HostTensor &mask, int64_t i) {
  return mask.isFloat() ? mask.floats[i] > hidden : mask.ints[i] != 0;
}

// Describes a known mask: it masks nothing, keeps a band of keys along the diagonal, or is another.
struct Band {
  enum Kind { All, Diagonal, Other } kind = Other;
  int64_t offset = 0;
  std::optional<int64_t> window;
};

bool isTwofold(const HostTensor &mask) {
  for (double v : mask.floats)
    if (v != 0 && !(v <= hidden))
      return false;
  return true;
}

// Returns the first and last key that row `row` attends to; nullopt if that is not a range.
std::optional<std::pair<int64_t, int64_t>> rangeOf(const HostTensor &mask, int64_t row,
                                                   int64_t keys) {
  int64_t first = -1, last = -1;
  for (int64_t j = 0; j < keys; ++j) {
    if (!sees(mask, row * keys + j))
      continue;
    if (last >= 0 && last != j - 1)
      return std::nullopt;
    first = first < 0 ? j : first;
    last = j;
  }
  return first < 0 ? std::nullopt : std::optional(std::pair(first, last));
}

Band bandOf(const HostTensor &mask, int64_t rows, int64_t keys) {
  Band band;
  if (!isTwofold(mask))
    return band;
  if (mask.size() == 1) {
    band.kind = sees(mask, 0) ? Band::All : Band::Other;
    return band;
  }
  if (mask.size() != rows * keys || mask.shape[2] != rows || mask.shape[3] != keys)
    return band;
  std::vector<std::pair<int64_t, int64_t>> ranges;
  std::optional<int64_t> offset;
  for (int64_t i = 0; i < rows; ++i) {
    auto range = rangeOf(mask, i, keys);
    if (!range)
      return band;
    ranges.push_back(*range);
    if (!offset && range->second < keys - 1)
      offset = range->second - i;
  }
  if (!offset || *offset < 0)
    return band;
  for (int64_t i = 0; i < rows && !band.window; ++i)
    if (ranges[i].first > 0)
      band.window = i + *offset - ranges[i].first + 1;
  for (int64_t i = 0; i < rows; ++i) {
    int64_t last = std::min(keys - 1, i + *offset);
    int64_t first = band.window ? std::max<int64_t>(0, i + *offset - *band.window + 1) : 0;
    if (ranges[i] != std::pair(first, last))
      return band;
  }
  band.kind = Band::Diagonal;
  band.offset = *offset;
  return band;
}

// Turns known masks that are bands into attributes, and removes those that mask nothing.
void simplify(Attention &a) {
  int64_t rows = graph::shapeOf(a.q)[1], keys = graph::shapeOf(a.k)[1];
  std::vector<Mask> kept;
  for (Mask &mask : a.masks) {
    const auto *known = std::get_if<HostTensor>(&mask);
    Band band = known ? bandOf(*known, rows, keys) : Band();
    bool agrees = !a.causal || a.offset == band.offset;
    if (band.kind == Band::All)
      continue;
    if (band.kind == Band::Other || !agrees) {
      kept.push_back(std::move(mask));
      continue;
    }
    a.causal = true;
    a.offset = band.offset;
    if (band.window)
      a.window = std::min(*band.window, a.window.value_or(*band.window));
  }
  a.masks = std::move(kept);
}

// Returns all masks as one, null if there is none; it is i1 if all masks are, else f32.
Value joined(NodeAdaptor &call, const std::vector<Mask> &masks, int64_t keys) {
  graph::Build &b = call.build;
  Value seen, added;
  for (const Mask &mask : masks) {
    const auto *known = std::get_if<HostTensor>(&mask);
    Value v = known ? call.materialize(*known) : std::get<Value>(mask);
    Value &sum = graph::isFloat(v) ? added : seen;
    sum = !sum                  ? v
          : graph::isFloat(v) ? b.add(sum, v)
                                : make<graph::AndOp>(call, sum, v);
  }
  if (seen && added)
    added = b.select(seen, added, call.scalar(-infinity));
  Value all = added ? added : seen;
  if (!all)
    return all;
  Shape shape(graph::shapeOf(all));
  shape[3] = keys;
  return b.broadcast(all, shape);
}

// Returns the mask of causal attention and its window, i1 [rows, keys].
Value bandMask(NodeAdaptor &call, const Attention &a) {
  graph::Build &b = call.build;
  int64_t rows = graph::shapeOf(a.q)[1], keys = graph::shapeOf(a.k)[1];
  Value row = indicesAlong(call, rows, 0, 2), key = indicesAlong(call, keys, 1, 2);
  Value last = b.add(row, call.scalarLike(a.offset, row));
  Value seen = b.compare(key, last, graph::Predicate::le);
  if (!a.window)
    return seen;
  Value first = b.sub(last, call.scalarLike(*a.window, last));
  return make<graph::AndOp>(call, seen, b.compare(key, first, graph::Predicate::gt));
}

// Repeats the heads of keys or values so that each query head has one of its own.
Value repeatHeads(graph::Build &build, Value x, int64_t heads) {
  Shape shape(graph::shapeOf(x));
  if (shape[2] == heads)
    return x;
  x = build.reshape(x, {shape[0], shape[1], shape[2], 1, shape[3]});
  x = build.broadcast(x, {shape[0], shape[1], shape[2], heads / shape[2], shape[3]});
  return build.reshape(x, {shape[0], shape[1], heads, shape[3]});
}

// Builds a softmax with an extra score in each row, whose probability is dropped.
Value softmaxWithSink(NodeAdaptor &call, Value scores, Value sink) {
  Shape shape(graph::shapeOf(scores));
  int64_t keys = shape[3];
  shape[3] = 1;
  Value column = call.build.reshape(sink, {1, graph::shapeOf(sink)[0], 1, 1});
  column = call.build.broadcast(column, shape);
  return call.build.slice(softmaxOf(call, call.build.concat({scores, column}, 3)), 3, 0, keys);
}

// Builds softmax(softcap(scale q k^T) + mask) v out of matmuls.
Attended spelledOut(NodeAdaptor &call, const Attention &a, Value mask) {
  graph::Build &b = call.build;
  int64_t count = graph::shapeOf(a.q)[2];
  Value k = repeatHeads(b, a.k, count), v = repeatHeads(b, a.v, count);
  Type f32 = b.builder.getF32Type();
  Value scores = b.mul(b.matmul("bqhd,bkhd->bhqk", a.q, k, f32), call.scalar(a.scale));
  Value asked = scores;
  if (a.softcap > 0) {
    scores = make<graph::TanhOp>(call, b.mul(scores, call.scalar(1 / a.softcap)));
    scores = b.mul(scores, call.scalar(a.softcap));
  }
  asked = a.scores == 1 ? scores : asked;
  Value minus = call.scalar(-infinity);
  if (mask)
    scores = graph::isFloat(mask) ? b.add(scores, mask) : b.select(mask, scores, minus);
  if (a.causal)
    scores = b.select(bandMask(call, a), scores, minus);
  asked = a.scores == 2 ? scores : asked;
  Value weights = a.sink ? softmaxWithSink(call, scores, a.sink) : softmaxOf(call, scores);
  asked = a.scores == 3 ? weights : asked;
  return {b.matmul("bhqk,bkhd->bqhd", weights, v, f32), asked};
}

support::Status checkShapes(const Attention &a) {
  auto q = graph::shapeOf(a.q), k = graph::shapeOf(a.k), v = graph::shapeOf(a.v);
  if (q[0] != k[0] || q[0] != v[0] || k[1] != v[1] || k[2] != v[2] || q[3] != k[3] ||
      k[2] == 0 || q[2] % k[2])
    return error("shapes ", toText(q), ", ", toText(k), " and ", toText(v),
                 " (batch, rows, heads, dim) do not fit");
  if (*countElements(q) == 0 || *countElements(k) == 0 || *countElements(v) == 0)
    return error("needs rows, keys and heads, got shapes ", toText(q), " and ", toText(k));
  if (a.softcap < 0 || !std::isfinite(a.softcap) || !std::isfinite(a.scale))
    return error("scale ", a.scale, " and softcap ", a.softcap, " must be finite");
  return support::ok();
}

} // namespace

double llmc::onnximport::usualScale(double given, int64_t dim) {
  double usual = 1 / std::sqrt(double(dim));
  return given == 0 || std::fabs(given - usual) < 1e-6 * usual ? usual : given;
}

Result<Attended> llmc::onnximport::attend(NodeAdaptor &call, Attention a) {
  if (auto s = checkShapes(a); !s)
    return s.takeError();
  simplify(a);
  graph::Build &b = call.build;
  auto q = graph::shapeOf(a.q);
  int64_t keys = graph::shapeOf(a.k)[1];
  Value mask = joined(call, a.masks, keys);
  bool one = !a.sink && !a.scores && q[3] == graph::shapeOf(a.v)[3] && a.offset >= 0;
  if (!one)
    return spelledOut(call, a, mask);
  auto rows = RankedTensorType::get(q.drop_back(), b.builder.getF32Type());
  Type types[] = {a.q.getType(), rows};
  auto op = graph::AttentionOp::create(b.builder, b.loc, TypeRange(types), a.q, a.k, a.v,
                                       llvm::APFloat(a.scale), a.causal, mask, a.offset, a.window,
                                       a.softcap);
  return Attended{op.getO(), Value()};
}

//===-- Operands --------------------------------------------------------------===//

// Returns the mask with its last dim padded to `keys` with masked keys.
static HostTensor padded(const HostTensor &mask, int64_t keys) {
  Shape shape(mask.shape);
  int64_t columns = shape.back();
  shape.back() = keys;
  HostTensor out(mask.element, shape);
  for (int64_t i = 0; i < out.size(); ++i) {
    int64_t from = i / keys * columns + i % keys;
    bool inside = i % keys < columns;
    if (out.isFloat())
      out.floats[i] = inside ? mask.floats[from] : -infinity;
    else
      out.ints[i] = inside && mask.ints[from];
  }
  return out;
}

Result<Mask> llmc::onnximport::maskOperand(NodeAdaptor &call, size_t i,
                                           llvm::ArrayRef<int64_t> scores) {
  Shape shape = call.shape(i), four(4 - std::min<size_t>(4, shape.size()), 1);
  four.append(shape.begin(), shape.end());
  bool fits = four.size() == 4 && (call.isFloat(i) || call.isBool(i));
  for (size_t d = 0; fits && d < 3; ++d)
    fits = four[d] == 1 || four[d] == scores[d];
  int64_t keys = scores[3];
  // A single column is broadcast to all keys, not padded.
  bool isShort = fits && four[3] < keys && (four[3] != 1 || shape.empty());
  if (!fits || four[3] > keys || shape.empty())
    return error("mask of shape ", toText(shape), " does not broadcast to ", toText(scores));
  if (const HostTensor *compact = call.compact(i)) {
    HostTensor known = *compact;
    if (isShort)
      known = padded(takeStrided(known, [&] {
                       Shape dense(known.shape);
                       dense.back() = four[3];
                       return dense;
                     }(), [&] {
                       Shape strides = rowMajor(known.shape);
                       strides.back() = known.shape.back() == 1 ? 0 : 1;
                       return strides;
                     }()),
                     keys);
    known.shape.insert(known.shape.begin(), 4 - known.shape.size(), 1);
    return Mask(std::move(known));
  }
  graph::Build &b = call.build;
  Value mask = b.reshape(call.value(i), four);
  if (!isShort)
    return Mask(mask);
  Shape rest(four);
  rest[3] = keys - four[3];
  Value fill = call.scalarLike(graph::isFloat(mask) ? -infinity : 0, mask);
  return Mask(b.concat({mask, b.broadcast(fill, rest)}, 3));
}

Result<Cached> llmc::onnximport::withCache(NodeAdaptor &call, Value fresh, size_t past) {
  Shape shape(graph::shapeOf(fresh)); // [batch, rows, heads, dim]
  graph::Build &b = call.build;
  Value turned = b.transpose(fresh, {0, 2, 1, 3});
  if (!call.has(past) || countElements(call.shape(past)) == 0)
    return Cached{fresh, turned, 0};
  Shape cache = call.shape(past);
  if (!call.isFloat(past) || cache.size() != 4 || cache[0] != shape[0] || cache[1] != shape[2] ||
      cache[3] != shape[3])
    return error("cache of shape ", toText(cache), " does not fit ", toText(shape),
                 " (batch, rows, heads, dim)");
  Value present = b.concat({call.value(past), turned}, 2);
  return Cached{b.transpose(present, {0, 2, 1, 3}), present, cache[2]};
}

Result<Value> llmc::onnximport::splitHeads(NodeAdaptor &call, Value x, int64_t heads) {
  Shape shape(graph::shapeOf(x));
  if (shape.size() != 3 || heads <= 0 || shape[2] % heads)
    return error("shape ", toText(shape), " (batch, rows, width) is not divisible by ", heads,
                 " heads");
  return call.build.reshape(x, {shape[0], shape[1], heads, shape[2] / heads});
}

bool llmc::onnximport::wants(NodeAdaptor &call, int output) {
  return output < call.node.proto->output_size() && !call.node.proto->output(output).empty();
}

Value llmc::onnximport::mergeHeads(NodeAdaptor &call, Value x) {
  auto shape = graph::shapeOf(x);
  return call.build.reshape(x, {shape[0], shape[1], shape[2] * shape[3]});
}

Value llmc::onnximport::columns(NodeAdaptor &call, Value x, int64_t start, int64_t width) {
  int64_t last = graph::shapeOf(x).size() - 1;
  if (width == graph::shapeOf(x)[last])
    return x;
  return call.build.slice(x, last, start, start + width);
}

support::Status llmc::onnximport::addBias(NodeAdaptor &call, size_t i, Attention &a) {
  if (!call.has(i))
    return support::ok();
  if (!call.isFloat(i))
    return error("attention_bias must be floats");
  auto q = graph::shapeOf(a.q);
  auto mask = maskOperand(call, i, {q[0], q[2], q[1], graph::shapeOf(a.k)[1]});
  if (!mask)
    return mask.takeError();
  a.masks.push_back(std::move(*mask));
  return support::ok();
}
