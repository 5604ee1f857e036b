// Converts convolutions and pooling: windows over the dims after batch and channels.
#include "lib/onnx/convert/Formula.h"
#include "llvm/ADT/StringMap.h"

#include <cmath>
#include <limits>

using namespace llmc::onnximport;
using namespace llmc;
using namespace mlir;
using llmc::support::error;
using llmc::support::Result;

namespace {

// Describes the windows along a dim: window k < count covers elements k * stride - low +
// j * dilation, j < size, of `length` elements.
struct Window {
  int64_t size = 1, stride = 1, dilation = 1, low = 0, high = 0, count = 0, length = 0;
  int64_t reach() const { return (size - 1) * dilation + 1; }
  int64_t at(int64_t k, int64_t j) const { return k * stride - low + j * dilation; }
};
using Windows = std::vector<Window>;

// Sets ceil(length / stride) windows, and pads both ends for them; an odd pad is at the end
// (SAME_UPPER) or at the start.
void padSame(Window &w, bool upper) {
  w.count = (w.length + w.stride - 1) / w.stride;
  int64_t total = std::max<int64_t>((w.count - 1) * w.stride + w.reach() - w.length, 0);
  w.low = upper ? total / 2 : total - total / 2;
  w.high = total - w.low;
}

void countWindows(Window &w, bool up) {
  int64_t room = w.length + w.low + w.high - w.reach();
  w.count = room < 0 ? 0 : (up ? (room + w.stride - 1) / w.stride : room / w.stride) + 1;
  // With ceil_mode, no window starts after the last element.
  if (up && w.count > 0 && (w.count - 1) * w.stride >= w.length + w.low)
    --w.count;
}

Result<Windows> windowsOf(NodeAdaptor &call, llvm::ArrayRef<int64_t> sizes) {
  Shape shape = call.shape(0);
  size_t dims = shape.size() - 2;
  auto list = [&](const char *name, size_t count, int64_t otherwise) {
    Shape given = call.node.integers(name).value_or(Shape());
    return given.empty() ? Shape(count, otherwise) : given;
  };
  Shape strides = list("strides", dims, 1), dilations = list("dilations", dims, 1),
        pads = list("pads", 2 * dims, 0);
  if (sizes.size() != dims || strides.size() != dims || dilations.size() != dims ||
      pads.size() != 2 * dims)
    return error("kernel, strides, dilations and pads do not fit shape ", toText(shape));
  std::string mode = call.node.text("auto_pad", "NOTSET");
  Windows out(dims);
  for (size_t d = 0; d < dims; ++d) {
    Window &w = out[d];
    w = {sizes[d], strides[d], dilations[d], pads[d], pads[d + dims], 0, shape[d + 2]};
    int64_t limit = int64_t(1) << 20;
    for (int64_t n : {w.size, w.stride, w.dilation})
      if (n < 1 || n > limit)
        return error("kernel, strides and dilations must be positive");
    if (w.low < 0 || w.high < 0 || std::max(w.low, w.high) > limit || w.length > limit)
      return error("pads ", toText(pads), " must not be negative");
    if (mode == "SAME_UPPER" || mode == "SAME_LOWER") {
      padSame(w, mode == "SAME_UPPER");
      continue;
    }
    if (mode == "VALID")
      w.low = w.high = 0;
    countWindows(w, call.node.integer("ceil_mode", 0) != 0);
    if (w.count < 1)
      return error("no window of ", w.reach(), " fits into dim ", d + 2, " of ", toText(shape));
  }
  return out;
}

// Pads a dim with `low` elements `fill` before and `high` after it.
Value padDim(NodeAdaptor &call, Value x, int64_t dim, int64_t low, int64_t high, Value fill) {
  llvm::SmallVector<Value> parts{x};
  auto block = [&](int64_t size) {
    Shape shape(graph::shapeOf(x));
    shape[dim] = size;
    return call.build.broadcast(fill, shape);
  };
  if (low > 0)
    parts.insert(parts.begin(), block(low));
  if (high > 0)
    parts.push_back(block(high));
  return parts.size() == 1 ? x : call.build.concat(parts, dim);
}

// Maps [batch, channels, dims...] to [batch, channels, (windows, elements) of each dim].
Value unfold(NodeAdaptor &call, Value x, const Windows &windows, Value fill) {
  for (size_t d = 0; d < windows.size(); ++d) {
    const Window &w = windows[d];
    int64_t dim = 2 + 2 * d, last = w.at(w.count - 1, w.size - 1);
    x = padDim(call, x, dim, w.low, std::max<int64_t>(last + 1 - w.length, 0), fill);
    Shape at;
    for (int64_t k = 0; k < w.count; ++k)
      for (int64_t j = 0; j < w.size; ++j)
        at.push_back(w.low + w.at(k, j));
    x = selectIndices(call, x, dim, at);
    Shape shape(graph::shapeOf(x));
    shape[dim] = w.count;
    shape.insert(shape.begin() + dim + 1, w.size);
    x = call.build.reshape(x, shape);
  }
  return x;
}

support::Status checkUnfolded(NodeAdaptor &call, const Windows &windows) {
  Shape all(llvm::ArrayRef<int64_t>(call.shape(0)).take_front(2));
  for (const Window &w : windows)
    all.append({w.count, w.size});
  return checkHostSize(all);
}

// Returns the dims of the elements of windows: 3, 5, ...
Shape elementDims(const Windows &windows) {
  Shape dims;
  for (size_t d = 0; d < windows.size(); ++d)
    dims.push_back(3 + 2 * d);
  return dims;
}

//===-- Convolution -----------------------------------------------------------===//

ConvertResult convertConv(NodeAdaptor &call) {
  if (auto s = needFloats(call, 2); !s)
    return s.takeError();
  Shape x = call.shape(0), w = call.shape(1);
  int64_t groups = call.node.integer("group", 1);
  if (x.size() < 3 || x.size() > 8 || w.size() != x.size() || groups < 1 || w[0] % groups ||
      w[1] * groups != x[1] || *countElements(w) == 0 || *countElements(x) == 0)
    return error("x of shape ", toText(x), " and weights of ", toText(w), " in ", groups,
                 " groups do not fit");
  auto windows = windowsOf(call, llvm::ArrayRef<int64_t>(w).drop_front(2));
  if (!windows)
    return windows.takeError();
  if (auto s = checkUnfolded(call, *windows); !s)
    return s.takeError();
  graph::Build &b = call.build;
  Value parts = unfold(call, call.value(0), *windows, call.scalar(0));
  // Flatten each window to one row of terms: the convolution is then one product.
  Shape left{x[0], groups, w[1]}, result{x[0], w[0]}, order{0, 1};
  int64_t dims = windows->size(), count = 1, terms = w[1];
  for (const Window &one : *windows) {
    left.append({one.count, one.size});
    result.push_back(one.count);
    count *= one.count;
    terms *= one.size;
  }
  for (int64_t d = 0; d < dims; ++d)
    order.push_back(3 + 2 * d);
  order.push_back(2);
  for (int64_t d = 0; d < dims; ++d)
    order.push_back(4 + 2 * d);
  Value rows = b.reshape(b.transpose(b.reshape(parts, left), order), {x[0], groups, count, terms});
  Value weights = b.reshape(call.value(1, UseKind::Weight), {groups, w[0] / groups, terms});
  Value y = b.matmul("ngak,gmk->ngma", rows, weights, b.builder.getF32Type());
  y = b.reshape(y, result);
  if (!call.has(2))
    return single(y);
  if (!call.isFloat(2) || call.shape(2) != Shape{w[0]})
    return error("bias of shape ", toText(call.shape(2)), " must be [", w[0], "]");
  Shape wide(x.size(), 1);
  wide[1] = w[0];
  return single(b.add(y, b.reshape(call.value(2, UseKind::Bias), wide)));
}

//===-- Pooling ---------------------------------------------------------------===//

Result<Windows> poolWindows(NodeAdaptor &call) {
  if (!call.has(0) || call.isBool(0) || call.shape(0).size() < 3 || call.shape(0).size() > 8 ||
      *countElements(call.shape(0)) == 0)
    return error("needs numbers [batch, channels, ...]");
  if (call.node.proto->output_size() > 1)
    return error("the output Indices is not supported");
  auto windows = windowsOf(call, call.node.integers("kernel_shape").value_or(Shape()));
  if (!windows)
    return windows;
  if (auto s = checkUnfolded(call, *windows); !s)
    return s.takeError();
  return windows;
}

// Drops the reduced dims of the elements of windows.
Value pooled(NodeAdaptor &call, Value kept, const Windows &windows) {
  Shape shape(graph::shapeOf(kept).take_front(2));
  for (const Window &w : windows)
    shape.push_back(w.count);
  return call.build.reshape(kept, shape);
}

ConvertResult convertMaxPool(NodeAdaptor &call) {
  auto windows = poolWindows(call);
  if (!windows)
    return windows.takeError();
  Value x = call.value(0);
  double lowest = graph::isFloat(x) ? -std::numeric_limits<double>::infinity() : -4e15;
  Value parts = unfold(call, x, *windows, call.scalarLike(lowest, x));
  Value top = reduceKept(call, parts, graph::ReduceKind::max, elementDims(*windows));
  return single(pooled(call, top, *windows));
}

// Returns 1 / the number of elements of each window: those of x and, if `padding`, its pads.
Value inverseCounts(NodeAdaptor &call, const Window &w, bool padding, int64_t dim, int64_t rank) {
  Shape shape(rank, 1);
  shape[dim] = w.count;
  HostTensor out(Element::F32, shape);
  for (int64_t k = 0; k < w.count; ++k) {
    int64_t count = 0;
    for (int64_t j = 0; j < w.size; ++j) {
      int64_t at = w.at(k, j);
      count += padding ? at >= -w.low && at < w.length + w.high : at >= 0 && at < w.length;
    }
    out.set(k, count ? 1.0 / count : 0);
  }
  return call.materialize(out);
}

ConvertResult convertAveragePool(NodeAdaptor &call) {
  auto windows = poolWindows(call);
  if (!windows)
    return windows.takeError();
  if (!call.isFloat(0))
    return error("needs floats");
  Value parts = unfold(call, call.value(0), *windows, call.scalar(0));
  Value y = reduceKept(call, parts, graph::ReduceKind::sum, elementDims(*windows));
  y = pooled(call, y, *windows);
  bool padding = call.node.integer("count_include_pad", 0);
  for (size_t d = 0; d < windows->size(); ++d)
    y = call.build.mul(y, inverseCounts(call, (*windows)[d], padding, d + 2, windows->size() + 2));
  return single(y);
}

ConvertResult convertLpPool(NodeAdaptor &call) {
  auto windows = poolWindows(call);
  if (!windows)
    return windows.takeError();
  int64_t p = call.node.integer("p", 2);
  if (!call.isFloat(0) || p < 1)
    return error("needs floats and p >= 1, got ", p);
  auto power = [&](Value x, double exponent) {
    return make<graph::PowOp>(call, x, call.build.builder.getF64FloatAttr(exponent));
  };
  Value parts = unfold(call, make<graph::AbsOp>(call, call.value(0)), *windows, call.scalar(0));
  Value sum = reduceKept(call, power(parts, p), graph::ReduceKind::sum, elementDims(*windows));
  return single(pooled(call, power(sum, 1.0 / p), *windows));
}

template <bool largest>
ConvertResult convertGlobalPool(NodeAdaptor &call) {
  Shape shape = call.shape(0), dims;
  if (!call.isFloat(0) || shape.size() < 3 || *countElements(shape) == 0)
    return error("needs floats [batch, channels, ...]");
  for (size_t d = 2; d < shape.size(); ++d)
    dims.push_back(d);
  Value x = call.value(0);
  return single(largest ? reduceKept(call, x, graph::ReduceKind::max, dims)
                        : meanKept(call, x, dims));
}

} // namespace

ConvertFunction llmc::onnximport::findWindowConverter(llvm::StringRef op) {
  static const llvm::StringMap<ConvertFunction> table = {
      {"Conv", convertConv},
      {"MaxPool", convertMaxPool},
      {"AveragePool", convertAveragePool},
      {"LpPool", convertLpPool},
      {"GlobalAveragePool", convertGlobalPool<false>},
      {"GlobalMaxPool", convertGlobalPool<true>},
  };
  return table.lookup(op);
}
