// Converts ops that find the largest elements.
#include "lib/onnx/convert/Formula.h"
#include "llvm/ADT/StringMap.h"

using namespace llmc::onnximport;
using namespace llmc;
using namespace mlir;
using llmc::support::error;

namespace {

// Returns the index of the first, or the last, maximum along a dim, which becomes 1.
Value indexOfLargest(NodeAdaptor &call, Value x, int64_t dim, bool last) {
  graph::Build &b = call.build;
  int64_t rank = graph::shapeOf(x).size(), size = graph::shapeOf(x)[dim];
  Value top = reduceKept(call, x, graph::ReduceKind::max, {dim});
  Value index = indicesAlong(call, size, dim, rank), end = call.scalarLike(size - 1, index);
  Value score = last ? index : b.sub(end, index);
  score = b.select(b.compare(x, top, graph::Predicate::eq), score, call.scalarLike(-1, score));
  // If nothing equals the maximum there are NaNs, and the index is 0.
  Value best = maximum(call, reduceKept(call, score, graph::ReduceKind::max, {dim}),
                       call.scalarLike(0, score));
  return last ? best : b.sub(end, best);
}

template <bool smallest>
ConvertResult convertArg(NodeAdaptor &call) {
  Shape shape = call.shape(0);
  auto axis = normalAxis(call.node.integer("axis", 0), shape.size());
  if (!call.has(0) || call.isBool(0) || !axis || shape[*axis] == 0)
    return error("needs an operand of numbers with elements along axis ",
                 call.node.integer("axis", 0), ", got shape ", toText(shape));
  Value x = call.value(0);
  x = smallest ? call.build.neg(x) : x;
  Value at = indexOfLargest(call, x, *axis, call.node.integer("select_last_index", 0) != 0);
  if (!call.node.integer("keepdims", 1))
    shape.erase(shape.begin() + *axis);
  else
    shape[*axis] = 1;
  return single(call.build.reshape(at, shape));
}

// Inserts a dim of 1 behind (or before) the last dim.
Value apart(NodeAdaptor &call, Value x, bool behind) {
  Shape shape(graph::shapeOf(x));
  shape.insert(behind ? shape.end() : shape.end() - 1, 1);
  return call.build.reshape(x, shape);
}

// Chooses the k best of the last dim as routers do, and takes their elements. Integers are compared as
// floats: the caller knows them to be small.
std::vector<Operand> chooseBest(NodeAdaptor &call, Value x, int64_t k, bool largest, int64_t axis) {
  graph::Build &b = call.build;
  int64_t rank = graph::shapeOf(x).size();
  x = b.transpose(x, swapped(rank, axis, rank - 1));
  Value scores = floats(call, x);
  Shape chosen(graph::shapeOf(x)), wide(chosen), row(chosen);
  chosen.back() = k;
  wide.insert(wide.end() - 1, k);
  row.insert(row.end() - 1, 1);
  Value routes = graph::RouteOp::create(b.builder, b.loc, RankedTensorType::get(chosen, b.builder.getI64Type()),
                                        largest ? scores : b.neg(scores), Value(), 1, 1, 1);
  Value values = graph::TakeAlongOp::create(b.builder, b.loc, RankedTensorType::get(chosen, graph::elementOf(x)),
                                            b.broadcast(b.reshape(x, row), wide), routes, Value());
  return {b.transpose(values, swapped(rank, axis, rank - 1)), b.transpose(routes, swapped(rank, axis, rank - 1))};
}

// Converts TopK: floats, and numbers of experts, as a router chooses. Ranks other integers, which floats
// cannot tell apart, by comparing each with all others.
ConvertResult convertTopK(NodeAdaptor &call) {
  Shape shape = call.shape(0);
  int64_t rank = shape.size(), k = call.node.integer("k", 0); // an attribute before 10
  auto axis = normalAxis(call.node.integer("axis", -1), rank);
  if (call.has(1)) {
    auto given = knownIntegers(call, 1);
    if (!given)
      return given.takeError();
    k = given->size() == 1 ? (*given)[0] : -1;
  }
  if (!call.has(0) || call.isBool(0) || !axis || k < 0 || k > shape[*axis])
    return error("needs an operand of numbers and a k of at most its size along axis ",
                 call.node.integer("axis", -1), ", got k = ", k, " and shape ", toText(shape));
  Value operand = call.value(0);
  bool chooses = k > 0 && (graph::isFloat(operand) || isRouteOrCount(operand));
  if (chooses)
    return chooseBest(call, operand, k, call.node.integer("largest", 1) != 0, *axis);
  Shape pairs = shape;
  pairs.push_back(shape[*axis]);
  if (auto s = checkHostSize(pairs); !s)
    return s.takeError();
  graph::Build &b = call.build;
  Value x = b.transpose(operand, swapped(rank, *axis, rank - 1));
  int64_t size = shape[*axis], last = rank; // dims: ..., one, other
  Value own = apart(call, x, true), other = apart(call, x, false);
  bool largest = call.node.integer("largest", 1);
  Value ahead = b.compare(other, own, largest ? graph::Predicate::gt : graph::Predicate::lt);
  Value equal = b.compare(other, own, graph::Predicate::eq);
  Value before = b.compare(indicesAlong(call, size, 1, 2), indicesAlong(call, size, 0, 2),
                           graph::Predicate::lt);
  ahead = make<graph::OrOp>(call, ahead, make<graph::AndOp>(call, equal, before));
  Value place = b.reduce(integers(call, ahead), graph::ReduceKind::sum, {last});
  // Compare ranks with 0 ... k - 1: [..., k, size].
  Value chosen = b.compare(apart(call, place, false), indicesAlong(call, k, 0, 2),
                           graph::Predicate::eq);
  auto pick = [&](Value from) {
    Value each = b.select(chosen, from, call.scalarLike(0, from));
    return b.transpose(b.reduce(each, graph::ReduceKind::sum, {last}),
                       swapped(rank, *axis, rank - 1));
  };
  return std::vector<Operand>{pick(apart(call, x, false)), pick(indicesAlong(call, size, 1, 2))};
}

// Converts Hardmax: 1 at the first maximum of each row, else 0.
ConvertResult convertHardmax(NodeAdaptor &call) {
  Shape shape = call.shape(0);
  int64_t rank = shape.size();
  bool old = call.node.opset < 13;
  auto axis = normalAxis(call.node.integer("axis", old ? 1 : -1), rank);
  if (!call.isFloat(0) || !axis || shape[*axis] == 0)
    return error("needs a float operand with elements along its axis");
  graph::Build &b = call.build;
  Value x = call.value(0);
  if (old) { // all dims from the axis on form one row
    Shape two = threeDims(shape, *axis);
    x = b.reshape(x, {two[0], two[1] * two[2]});
  }
  int64_t dim = old ? 1 : *axis, width = graph::shapeOf(x).size();
  Value at = indexOfLargest(call, x, dim, false);
  Value hot = b.compare(indicesAlong(call, graph::shapeOf(x)[dim], dim, width), at,
                        graph::Predicate::eq);
  return single(b.reshape(floats(call, hot), shape));
}

} // namespace

ConvertFunction llmc::onnximport::findSearchConverter(llvm::StringRef op) {
  static const llvm::StringMap<ConvertFunction> table = {
      {"ArgMax", convertArg<false>},
      {"ArgMin", convertArg<true>},
      {"TopK", convertTopK},
      {"Hardmax", convertHardmax},
  };
  return table.lookup(op);
}
