#include "lib/onnx/convert/Formula.h"

#include "llvm/ADT/STLExtras.h"

#include <cmath>
#include <limits>
#include <numeric>

using namespace llmc::onnximport;
using namespace llmc;
using namespace mlir;
using llmc::support::error;

static bool isVector(llvm::ArrayRef<int64_t> shape) {
  shape = shape.drop_while([](int64_t d) { return d == 1; });
  return shape.size() == 1;
}

// Returns the role of an operand of a binary op: a vector along the last dim that is added is a
// Bias, one that is multiplied a Scale; another one that meets an activation is Beside.
static UseKind roleOf(NodeAdaptor &call, size_t operand, llvm::StringRef op) {
  Shape own = call.shape(operand), other = call.shape(1 - operand);
  bool vector = isVector(own) && !other.empty() && own.back() == other.back();
  bool beside = call.isCombinedWithActivation(operand, 1 - operand);
  if (vector && (beside || (call.view(operand) && !call.view(1 - operand)))) {
    if (op == "Add" || op == "Mul")
      return op == "Add" ? UseKind::Bias : UseKind::Scale;
  }
  bool arithmetic = op == "Add" || op == "Sub" || op == "Mul" || op == "Div";
  return arithmetic && beside ? UseKind::WithActivation : UseKind::Plain;
}

support::Result<std::vector<Value>> llmc::onnximport::broadcastOperands(NodeAdaptor &call,
                                                                        size_t first) {
  Shape shape;
  for (size_t i = 0; i < call.size(); ++i) {
    if (!call.has(i))
      return error("operand ", i, " is missing");
    auto joined = broadcastShapes(shape, call.shape(i));
    if (!joined)
      return error("shapes ", toText(shape), " and ", toText(call.shape(i)),
                   " do not broadcast");
    shape = *joined;
  }
  for (size_t i = first + 1; i < call.size(); ++i)
    if (call.element(i) != call.element(first))
      return error("operands differ in element type");
  std::vector<Value> values;
  Shape reached;
  for (size_t i = 0; i < call.size(); ++i) {
    UseKind role = call.size() == 2 ? roleOf(call, i, call.node.op()) : UseKind::Plain;
    values.push_back(call.broadcastable(i, role));
    reached = *broadcastShapes(reached, graph::shapeOf(values.back()));
  }
  if (reached == shape)
    return values;
  for (size_t i = 0; i < call.size(); ++i)
    values[i] = call.value(i);
  return values;
}

support::Status llmc::onnximport::needFloats(NodeAdaptor &call, size_t count) {
  for (size_t i = 0; i < count; ++i)
    if (!call.isFloat(i))
      return error("operand ", i, call.has(i) ? " must be floats" : " is missing");
  return support::ok();
}

support::Result<Shape> llmc::onnximport::knownIntegers(NodeAdaptor &call, size_t i) {
  const HostTensor *tensor = call.constant(i);
  if (!tensor || tensor->isFloat())
    return error("operand ", i, " must be integers that depend on shapes and constants only");
  return Shape(tensor->ints.begin(), tensor->ints.end());
}

//===-- Indices ---------------------------------------------------------------===//

Value llmc::onnximport::indices(NodeAdaptor &call, int64_t size) {
  auto type = RankedTensorType::get({size}, call.build.builder.getI64Type());
  return graph::IotaOp::create(call.build.builder, call.build.loc, type, Value(), 0);
}

Value llmc::onnximport::indicesAlong(NodeAdaptor &call, int64_t size, int64_t dim, int64_t rank) {
  Shape shape(rank, 1);
  shape[dim] = size;
  return call.build.reshape(indices(call, size), shape);
}

Value llmc::onnximport::modulo(NodeAdaptor &call, Value x, int64_t size) {
  Value n = call.scalarLike(size, x);
  Value rest = make<graph::RemOp>(call, x, n);
  return make<graph::RemOp>(call, call.build.add(rest, n), n);
}

Shape llmc::onnximport::threeDims(llvm::ArrayRef<int64_t> shape, int64_t dim) {
  return {*countElements(shape.take_front(dim)), shape[dim],
          *countElements(shape.drop_front(dim + 1))};
}

Shape llmc::onnximport::swapped(int64_t rank, int64_t a, int64_t b) {
  Shape out(rank);
  std::iota(out.begin(), out.end(), 0);
  std::swap(out[a], out[b]);
  return out;
}

Shape llmc::onnximport::moved(int64_t rank, int64_t from, int64_t to) {
  Shape out;
  for (int64_t d = 0; d < rank; ++d)
    if (d != from)
      out.push_back(d);
  out.insert(out.begin() + to, from);
  return out;
}

// Returns start and step if the numbers are evenly spaced upward, else nullopt.
static std::optional<std::pair<int64_t, int64_t>> evenly(llvm::ArrayRef<int64_t> at) {
  if (at.empty())
    return std::nullopt;
  int64_t step = at.size() > 1 ? at[1] - at[0] : 1;
  for (size_t i = 1; i < at.size(); ++i)
    if (at[i] - at[i - 1] != step || step < 1)
      return std::nullopt;
  return std::pair(at[0], step);
}

Value llmc::onnximport::selectIndices(NodeAdaptor &call, Value x, int64_t dim,
                                      llvm::ArrayRef<int64_t> at) {
  Shape shape(graph::shapeOf(x));
  int64_t rank = shape.size(), size = shape[dim];
  if (auto even = evenly(at)) {
    if (static_cast<int64_t>(at.size()) == size)
      return x;
    Shape starts(rank, 0), limits = shape, steps(rank, 1);
    starts[dim] = even->first;
    limits[dim] = at.back() + 1;
    steps[dim] = even->second;
    shape[dim] = at.size();
    return graph::SliceOp::create(call.build.builder, call.build.loc,
                                  RankedTensorType::get(shape, graph::elementOf(x)), x, starts,
                                  limits, steps);
  }
  if (at.empty())
    return call.build.slice(x, dim, 0, 0);
  Value ids = call.materialize(HostTensor::vector(at));
  if (dim == 0)
    return gatherRows(call, x, ids);
  Value front = call.build.transpose(x, moved(rank, dim, 0));
  return call.build.transpose(gatherRows(call, front, ids), moved(rank, 0, dim));
}

Value llmc::onnximport::gatherRows(NodeAdaptor &call, Value table, Value ids) {
  Shape shape(graph::shapeOf(ids));
  auto row = graph::shapeOf(table).drop_front();
  shape.append(row.begin(), row.end());
  return graph::GatherOp::create(call.build.builder, call.build.loc,
                                 RankedTensorType::get(shape, graph::elementOf(table)), table,
                                 ids, Value());
}

bool llmc::onnximport::isRouteOrCount(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (isa<graph::RouteOp>(op))
      return true;
    auto count = dyn_cast<graph::ReduceOp>(op); // of what is true
    auto one = count ? count.getOperand().getDefiningOp<graph::CastOp>() : graph::CastOp();
    if (one && count.getKind() == graph::ReduceKind::sum && graph::elementOf(one.getOperand()).isInteger(1))
      return true;
    bool takes = isa<graph::GatherOp, graph::TakeAlongOp>(op); // also of routes
    if (!takes && !isa<graph::ReshapeOp, graph::TransposeOp, graph::BroadcastOp, graph::SliceOp>(op))
      return false;
    value = op->getOperand(0);
  }
  return false;
}

Value llmc::onnximport::wrapNegativeIndices(NodeAdaptor &call, Value ids, int64_t size) {
  if (isRouteOrCount(ids))
    return ids;
  Value negative = call.build.compare(ids, call.scalarLike(0, ids), graph::Predicate::lt);
  return call.build.select(negative, call.build.add(ids, call.scalarLike(size, ids)), ids);
}

//===-- Reductions ------------------------------------------------------------===//

static Shape keptShape(Value x, llvm::ArrayRef<int64_t> dims) {
  Shape shape(graph::shapeOf(x));
  for (int64_t d : dims)
    shape[d] = 1;
  return shape;
}

Value llmc::onnximport::reduceKept(NodeAdaptor &call, Value x, graph::ReduceKind kind,
                                   llvm::ArrayRef<int64_t> dims) {
  if (dims.empty() && kind == graph::ReduceKind::sum_squares)
    return call.build.mul(x, x);
  if (dims.empty())
    return x;
  return call.build.reshape(call.build.reduce(x, kind, dims), keptShape(x, dims));
}

Value llmc::onnximport::minimumKept(NodeAdaptor &call, Value x, llvm::ArrayRef<int64_t> dims) {
  if (dims.empty())
    return x;
  return call.build.neg(reduceKept(call, call.build.neg(x), graph::ReduceKind::max, dims));
}

Value llmc::onnximport::productKept(NodeAdaptor &call, Value x, llvm::ArrayRef<int64_t> dims) {
  if (dims.empty())
    return x;
  Shape kept = keptShape(x, dims), order;
  int64_t rank = kept.size(), count = 1;
  for (int64_t d = 0; d < rank; ++d)
    if (!llvm::is_contained(dims, d))
      order.push_back(d);
  for (int64_t d : dims) {
    order.push_back(d);
    count *= graph::shapeOf(x)[d];
  }
  int64_t rows = *countElements(kept);
  x = llvm::is_sorted(order) ? x : call.build.transpose(x, order);
  x = call.build.reshape(x, {rows, count});
  // Multiply both halves of a row; an odd element is appended to the product.
  while (count > 1) {
    int64_t half = count / 2;
    Value low = call.build.slice(x, 1, 0, half), high = call.build.slice(x, 1, half, 2 * half);
    Value product = call.build.mul(low, high);
    if (count % 2) {
      Value rest = call.build.slice(x, 1, 2 * half, count);
      product = call.build.concat({product, rest}, 1);
    }
    x = product;
    count = half + count % 2;
  }
  return call.build.reshape(x, kept);
}

Value llmc::onnximport::meanKept(NodeAdaptor &call, Value x, llvm::ArrayRef<int64_t> dims) {
  int64_t count = 1;
  for (int64_t d : dims)
    count *= graph::shapeOf(x)[d];
  Value sum = reduceKept(call, x, graph::ReduceKind::sum, dims);
  return call.build.mul(sum, call.scalar(count ? 1.0 / count : 0));
}

Value llmc::onnximport::softmaxOf(NodeAdaptor &call, Value x) {
  return graph::SoftmaxOp::create(call.build.builder, call.build.loc, x.getType(), x);
}

Value llmc::onnximport::logSoftmaxOf(NodeAdaptor &call, Value x) {
  int64_t last = graph::shapeOf(x).size() - 1;
  Value shifted = call.build.sub(x, reduceKept(call, x, graph::ReduceKind::max, {last}));
  Value sum = reduceKept(call, call.build.exp(shifted), graph::ReduceKind::sum, {last});
  return call.build.sub(shifted, make<graph::LogOp>(call, sum));
}

//===-- Small types -----------------------------------------------------------===//

namespace {

// Holds the nonnegative values of a type in increasing order, and last the value for numbers that
// are too large; a number is rounded to value i if it is above thresholds 0 ... i - 1.
struct SmallTable {
  std::vector<double> values, thresholds;
};

// Identifies how a number between two values is rounded.
enum class Between { Nearest, Up, Down };

SmallTable tableOf(Element element, Overflow overflow, Between between) {
  SmallTable table;
  int bits = bitWidth(element), codes = 1 << (element == Element::F8E8M0 ? bits : bits - 1);
  for (int code = 0; code < codes; ++code)
    if (double v = floatOf(element, code); std::isfinite(v))
      table.values.push_back(v);
  double top = table.values.back(), step = top - *std::prev(table.values.end(), 2);
  for (size_t i = 1; i <= table.values.size(); ++i) {
    bool last = i == table.values.size();
    double low = table.values[i - 1], gap = last ? step : table.values[i] - low;
    double middle = low + gap / 2;
    // Ties go to the even code: a step up must win where the lower one is odd.
    bool up = roundTo(element, middle, Overflow::Special) != low;
    if (between != Between::Nearest) {
      middle = between == Between::Up ? low : low + gap;
      up = between == Between::Down;
    }
    float at = static_cast<float>(middle);
    table.thresholds.push_back(
        up ? std::nextafter(at, -std::numeric_limits<float>::infinity()) : at);
  }
  table.values.push_back(roundTo(element, std::numeric_limits<double>::infinity(), overflow));
  return table;
}

HostTensor floatsOf(llvm::ArrayRef<double> values) {
  HostTensor out(Element::F32, {static_cast<int64_t>(values.size())});
  for (size_t i = 0; i < values.size(); ++i)
    out.set(i, values[i]);
  return out;
}

} // namespace

static Value roundByTable(NodeAdaptor &call, Value x, Element element, Overflow overflow, Between between) {
  graph::Build &build = call.build;
  SmallTable table = tableOf(element, overflow, between);
  int64_t size = 1;
  while (size < static_cast<int64_t>(table.values.size()))
    size *= 2;
  table.thresholds.resize(size, std::numeric_limits<double>::infinity());
  Value thresholds = call.materialize(floatsOf(table.thresholds));
  Value magnitude = make<graph::AbsOp>(call, x);
  Value position =
      build.broadcast(call.materialize(HostTensor(Element::I64, {})), graph::shapeOf(x));
  for (int64_t step = size / 2; step >= 1; step /= 2) {
    Value next = build.add(position, call.scalarLike(step, position));
    Value limit = gatherRows(call, thresholds, build.sub(next, call.scalarLike(1, next)));
    position = build.select(build.compare(magnitude, limit, graph::Predicate::gt), next, position);
  }
  Value rounded = gatherRows(call, call.materialize(floatsOf(table.values)), position);
  Value zero = call.scalar(0);
  bool nan = element != Element::F4E2M1;
  rounded = build.select(build.compare(x, zero, graph::Predicate::lt), build.neg(rounded), rounded);
  return build.select(build.compare(x, x, graph::Predicate::ne),
                      nan ? x : build.broadcast(zero, graph::shapeOf(x)), rounded);
}

Value llmc::onnximport::roundToSmall(NodeAdaptor &call, Value x, Element element,
                                     Overflow overflow) {
  std::string mode = call.node.text("round_mode", "up"); // for F8E8M0 alone
  Between between = element != Element::F8E8M0 || mode == "nearest" ? Between::Nearest
                    : mode == "up"                                  ? Between::Up
                                                                    : Between::Down;
  return roundByTable(call, x, element, overflow, between);
}

// Rounds x to float32; `power` is the largest power of two that is not above |x|. The quotient is
// in [1, 2), where the last place is 2^-23: all steps are exact in float32.
static Value roundToPlaces(NodeAdaptor &call, Value x, Value power) {
  graph::Build &build = call.build;
  Value places = call.scalar(0x1p23);
  Value whole = make<graph::RoundOp>(call, build.mul(build.div(x, power), places));
  return build.mul(build.div(whole, places), power);
}

Value llmc::onnximport::roundToFloat32(NodeAdaptor &call, Value x) {
  graph::Build &build = call.build;
  Value power = roundByTable(call, x, Element::F8E8M0, Overflow::Saturate, Between::Down);
  // Subnormal, very large and non-finite numbers stay as they are.
  Value isNormal = build.compare(x, call.scalar(0x1p-126), graph::Predicate::ge);
  Value isFinite = build.compare(x, call.scalar(0x1p127), graph::Predicate::lt);
  Value isRounded =
      graph::AndOp::create(build.builder, build.loc, isNormal.getType(), isNormal, isFinite);
  return build.select(isRounded, roundToPlaces(call, x, power), x);
}

Value llmc::onnximport::roundBeforeInteger(NodeAdaptor &call, Value x, int bits) {
  graph::Build &build = call.build;
  Value magnitude = make<graph::AbsOp>(call, x);
  auto filled = [&](double value) {
    return build.broadcast(call.scalar(value), graph::shapeOf(x));
  };
  Value power = filled(0.5); // a number below it is not near a tie of two integers
  for (int k = 0; k <= bits; ++k) {
    double limit = std::ldexp(1.0, k);
    Value isAbove = build.compare(magnitude, call.scalar(limit), graph::Predicate::ge);
    power = build.select(isAbove, filled(limit), power);
  }
  return roundToPlaces(call, x, power);
}

Value llmc::onnximport::wrapToSmall(NodeAdaptor &call, Value x, Element element) {
  int bits = bitWidth(element);
  if (isFloat(element) || element == Element::Bool || bits >= 32)
    return x;
  int64_t size = int64_t(1) << bits;
  int64_t low = wrapTo(element, size / 2) < 0 ? -size / 2 : 0;
  Value shifted = low ? call.build.sub(x, call.scalarLike(low, x)) : x;
  Value rest = modulo(call, shifted, size);
  return low ? call.build.add(rest, call.scalarLike(low, x)) : rest;
}
