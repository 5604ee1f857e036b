#include "lib/onnx/convert/Formula.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"

#include <limits>

using namespace llmc::onnximport;
using namespace llmc;
using namespace mlir;
using llmc::support::error;
using llmc::support::Result;

namespace {

struct Dims {
  Shape axes;   // sorted
  Shape result; // with or without the reduced dims
  bool empty = false; // the reductions have no elements
};

Result<Dims> dimsOf(NodeAdaptor &call) {
  if (!call.has(0) || (call.has(1) && !call.constant(1)))
    return error("needs an operand, and axes known at import");
  Shape shape = call.shape(0);
  auto axes = axesOf(call.node, call.constant(1), shape.size());
  if (!axes)
    return axes.takeError();
  Dims dims;
  dims.axes = *axes;
  if (axes->empty() && !call.node.integer("noop_with_empty_axes", 0))
    for (size_t d = 0; d < shape.size(); ++d)
      dims.axes.push_back(d);
  llvm::sort(dims.axes);
  for (size_t d = 0; d < shape.size(); ++d) {
    bool reduced = llvm::is_contained(dims.axes, static_cast<int64_t>(d));
    dims.empty |= reduced && shape[d] == 0;
    if (!reduced || call.node.integer("keepdims", 1))
      dims.result.push_back(reduced ? 1 : shape[d]);
  }
  return dims;
}

// Returns the result of a reduction of no elements.
double ofNothing(llvm::StringRef op) {
  double infinity = std::numeric_limits<double>::infinity();
  if (op == "ReduceMax" || op == "ReduceLogSum" || op == "ReduceLogSumExp")
    return -infinity;
  if (op == "ReduceMean")
    return std::numeric_limits<double>::quiet_NaN();
  return op == "ReduceMin" ? infinity : op == "ReduceProd" ? 1 : 0;
}

Value sum(NodeAdaptor &call, Value x, const Dims &dims) {
  return reduceKept(call, x, graph::ReduceKind::sum, dims.axes);
}
Value largest(NodeAdaptor &call, Value x, const Dims &dims) {
  return reduceKept(call, x, graph::ReduceKind::max, dims.axes);
}
Value mean(NodeAdaptor &call, Value x, const Dims &dims) { return meanKept(call, x, dims.axes); }
Value smallest(NodeAdaptor &call, Value x, const Dims &dims) {
  return minimumKept(call, x, dims.axes);
}
Value product(NodeAdaptor &call, Value x, const Dims &dims) {
  return productKept(call, x, dims.axes);
}
Value squares(NodeAdaptor &call, Value x, const Dims &dims) {
  if (graph::isFloat(x))
    return reduceKept(call, x, graph::ReduceKind::sum_squares, dims.axes);
  return sum(call, call.build.mul(x, x), dims);
}
Value magnitudes(NodeAdaptor &call, Value x, const Dims &dims) {
  return sum(call, make<graph::AbsOp>(call, x), dims);
}
Value length(NodeAdaptor &call, Value x, const Dims &dims) {
  Value root = make<graph::SqrtOp>(call, floats(call, squares(call, x, dims)));
  return call.build.cast(root, graph::elementOf(x));
}
Value logSum(NodeAdaptor &call, Value x, const Dims &dims) {
  Value log = make<graph::LogOp>(call, floats(call, sum(call, x, dims)));
  return call.build.cast(log, graph::elementOf(x));
}
// Builds log(sum(exp(x))), shifted by the largest element if that is finite.
Value logSumExp(NodeAdaptor &call, Value x, const Dims &dims) {
  graph::Build &b = call.build;
  Value f = floats(call, x), top = largest(call, f, dims);
  Value finite = b.compare(make<graph::AbsOp>(call, top),
                           call.scalar(std::numeric_limits<double>::infinity()),
                           graph::Predicate::lt);
  Value shift = b.select(finite, top, call.scalar(0));
  Value log = make<graph::LogOp>(call, sum(call, b.exp(b.sub(f, shift)), dims));
  return b.cast(b.add(log, shift), graph::elementOf(x));
}

// Reduces booleans: the maximum is true if any is, the minimum if all are.
Value ofBooleans(NodeAdaptor &call, Value x, const Dims &dims) {
  Value number = integers(call, x);
  number = call.node.op() == "ReduceMax" ? largest(call, number, dims)
                                         : smallest(call, number, dims);
  return call.build.compare(number, call.scalarLike(0, number), graph::Predicate::ne);
}

template <Value (*formula)(NodeAdaptor &, Value, const Dims &)>
ConvertResult reduction(NodeAdaptor &call) {
  auto dims = dimsOf(call);
  if (!dims)
    return dims.takeError();
  llvm::StringRef op = call.node.op();
  if (call.isBool(0) && op != "ReduceMax" && op != "ReduceMin")
    return error("needs an operand of numbers");
  if (dims->empty) {
    if (auto s = checkHostSize(dims->result); !s)
      return s.takeError();
    HostTensor all(call.declared(0), dims->result);
    for (int64_t i = 0; i < all.size(); ++i)
      all.set(i, call.isBool(0) ? double(op == "ReduceMin") : ofNothing(op));
    return std::vector<Operand>{known(std::move(all))};
  }
  Value x = call.value(0);
  if (op == "ReduceMean" && !graph::isFloat(x))
    return error("of integers is not supported: cast them to floats first");
  x = call.isBool(0) ? ofBooleans(call, x, *dims) : formula(call, x, *dims);
  return single(call.build.reshape(x, dims->result));
}

ConvertResult convertCumSum(NodeAdaptor &call) {
  const HostTensor *given = call.constant(1);
  if (!call.has(0) || call.isBool(0) || !given || given->size() != 1 || given->isFloat())
    return error("needs an operand of numbers, and an axis known at import");
  auto axis = normalAxis(given->ints[0], call.shape(0).size());
  if (!axis)
    return error("axis ", given->ints[0], " is not one of ", call.shape(0).size(), " dims");
  Value x = call.value(0);
  auto sums = graph::CumsumOp::create(call.build.builder, call.build.loc, x.getType(), x, *axis,
                                      call.node.integer("exclusive", 0) != 0,
                                      call.node.integer("reverse", 0) != 0);
  return single(sums);
}

// Converts CumProd by a scan in log2(size) steps.
ConvertResult convertCumProd(NodeAdaptor &call) {
  const HostTensor *given = call.constant(1);
  if (!call.has(0) || call.isBool(0) || !given || given->size() != 1 || given->isFloat())
    return error("needs an operand of numbers, and an axis known at import");
  auto axis = normalAxis(given->ints[0], call.shape(0).size());
  if (!axis)
    return error("axis ", given->ints[0], " is not one of ", call.shape(0).size(), " dims");
  graph::Build &b = call.build;
  Value x = call.value(0);
  int64_t size = call.shape(0)[*axis];
  Shape backward;
  for (int64_t i = size; i-- > 0;)
    backward.push_back(i);
  bool reverse = call.node.integer("reverse", 0) && size > 1;
  x = reverse ? selectIndices(call, x, *axis, backward) : x;
  auto later = [&](Value v, int64_t by) { // shifts by `by` elements, ones come first
    Shape shape(graph::shapeOf(v));
    shape[*axis] = by;
    Value ones = b.broadcast(call.scalarLike(1, v), shape);
    return by == size ? ones : b.concat({ones, b.slice(v, *axis, 0, size - by)}, *axis);
  };
  if (call.node.integer("exclusive", 0) && size > 0)
    x = later(x, 1);
  for (int64_t step = 1; step < size; step *= 2)
    x = b.mul(x, later(x, step));
  return single(reverse ? selectIndices(call, x, *axis, backward) : x);
}

// Converts LpNormalization: x / |x| along a dim.
ConvertResult convertLpNormalization(NodeAdaptor &call) {
  int64_t p = call.node.integer("p", 2);
  auto axis = normalAxis(call.node.integer("axis", -1), call.shape(0).size());
  if (!call.isFloat(0) || !axis || (p != 1 && p != 2))
    return error("needs a float operand, one of its dims, and p = 1 or 2, got ", p);
  Dims dims{{*axis}, {}};
  Value x = call.value(0);
  Value norm = p == 1 ? magnitudes(call, x, dims) : length(call, x, dims);
  Value zero = call.scalar(0), one = call.scalar(1);
  // A vector of zeros is left as it is.
  norm = call.build.select(call.build.compare(norm, zero, graph::Predicate::eq), one, norm);
  return single(call.build.div(x, norm));
}

} // namespace

ConvertFunction llmc::onnximport::findReduceConverter(llvm::StringRef op) {
  static const llvm::StringMap<ConvertFunction> table = {
      {"ReduceSum", reduction<sum>},
      {"ReduceMean", reduction<mean>},
      {"ReduceMax", reduction<largest>},
      {"ReduceMin", reduction<smallest>},
      {"ReduceProd", reduction<product>},
      {"ReduceSumSquare", reduction<squares>},
      {"ReduceL1", reduction<magnitudes>},
      {"ReduceL2", reduction<length>},
      {"ReduceLogSum", reduction<logSum>},
      {"ReduceLogSumExp", reduction<logSumExp>},
      {"CumSum", convertCumSum},
      {"CumProd", convertCumProd},
      {"LpNormalization", convertLpNormalization},
  };
  return table.lookup(op);
}
