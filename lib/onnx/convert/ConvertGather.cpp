// Converts ops that gather elements.
#include "lib/onnx/convert/Formula.h"
#include "llvm/ADT/StringMap.h"

using namespace llmc::onnximport;
using namespace llmc;
using namespace mlir;
using llmc::support::error;

namespace {

// Returns the known indices (operand 1) along a dim of `size`, in 0 ... size - 1; dims with equal
// indices are 1. Fails if one is out of range.
support::Result<HostTensor> knownIndices(NodeAdaptor &call, int64_t size) {
  HostTensor ids = *call.compact(1);
  for (int64_t &id : ids.ints) {
    int64_t normal = id < 0 ? id + size : id;
    if (normal < 0 || normal >= size)
      return error("index ", id, " is outside a table of ", size,
                   " rows (if these are positions, the sequence, ", kLongestDefault,
                   " tokens where nothing says otherwise, is longer than the position table: "
                   "use --seq ",
                   size, " or less)");
    id = normal;
  }
  return ids;
}

Shape gathered(llvm::ArrayRef<int64_t> data, int64_t axis, llvm::ArrayRef<int64_t> ids) {
  Shape out(data.take_front(axis));
  out.append(ids.begin(), ids.end());
  out.append(data.begin() + axis + 1, data.end());
  return out;
}

// Returns the computed indices (operand 1). Inputs of the model that index a stored table (tokens,
// positions) are taken to be not negative; others may count from the end.
Value computedIds(NodeAdaptor &call, int64_t size) {
  Value ids = call.value(1), from = ids;
  while (Operation *op = from.getDefiningOp()) {
    if (!isa<graph::ReshapeOp, graph::CastOp>(op))
      return wrapNegativeIndices(call, ids, size);
    from = op->getOperand(0);
  }
  return call.view(0) ? ids : wrapNegativeIndices(call, ids, size);
}

// Returns the role of a table of `rank` dims: matrices that are chosen by computed ids are weights of experts.
UseKind roleOfTable(NodeAdaptor &call, int64_t rank) {
  return rank >= 3 && !call.compact(1) ? UseKind::Weight : UseKind::Table;
}

ConvertResult convertGather(NodeAdaptor &call) {
  if (!call.has(0) || !call.isInteger(1))
    return error("needs data and integer indices");
  Shape data = call.shape(0);
  int64_t rank = data.size();
  auto axis = normalAxis(call.node.integer("axis", 0), rank);
  if (!axis)
    return error("axis ", call.node.integer("axis", 0), " is not one of ", rank, " dims");
  UseKind role = rank >= 2 && *axis == 0 ? roleOfTable(call, rank) : UseKind::Plain;
  Shape result = gathered(data, *axis, call.shape(1));
  if (!call.compact(1)) {
    Value ids = computedIds(call, data[*axis]), table = call.value(0, role);
    if (*axis == 0)
      return single(gatherRows(call, table, ids));
    // Flatten the indices, so that one dim moves back.
    ids = call.build.reshape(ids, {*countElements(call.shape(1))});
    Value rows = gatherRows(call, call.build.transpose(table, moved(rank, *axis, 0)), ids);
    return single(call.build.reshape(call.build.transpose(rows, moved(rank, 0, *axis)), result));
  }
  auto ids = knownIndices(call, data[*axis]);
  if (!ids)
    return ids.takeError();
  Value rows = call.value(0, role);
  bool lookup = *axis == 0 && ids->size() != 1;
  for (int64_t i = 1; lookup && i < ids->size(); ++i)
    if (ids->ints[i] != ids->ints[0] + i) {
      // Indices of several dims keep their shape.
      rows = gatherRows(call, rows, call.materialize(*ids));
      return single(call.build.broadcast(rows, result));
    }
  rows = selectIndices(call, rows, *axis, ids->ints);
  rows = call.build.reshape(rows, gathered(data, *axis, ids->shape));
  return single(call.build.broadcast(rows, result));
}

// Returns what indices along dim `dim` add to a flat index into `shape`: ids * stride of the dim.
Value weighted(NodeAdaptor &call, Value ids, llvm::ArrayRef<int64_t> shape, size_t dim) {
  int64_t stride = *countElements(shape.drop_front(dim + 1));
  return stride == 1 ? ids : call.build.mul(ids, call.scalarLike(stride, ids));
}

ConvertResult convertGatherND(NodeAdaptor &call) {
  if (!call.has(0) || !call.isInteger(1) || call.shape(0).empty() || call.shape(1).empty())
    return error("needs data and integer indices, both with dims");
  Shape data = call.shape(0), ids = call.shape(1);
  int64_t batch = call.node.integer("batch_dims", 0), depth = ids.back();
  int64_t tuples = ids.size() - 1, rank = data.size();
  bool fits = batch >= 0 && batch <= tuples && depth >= 1 && batch + depth <= rank;
  for (int64_t d = 0; fits && d < batch; ++d)
    fits = data[d] == ids[d];
  if (!fits)
    return error("indices of shape ", toText(ids), " do not index ", toText(data), " with ", batch,
                 " batch dims");
  graph::Build &build = call.build;
  llvm::ArrayRef<int64_t> indexed = llvm::ArrayRef<int64_t>(data).take_front(batch + depth);
  Shape shape(llvm::ArrayRef<int64_t>(ids).drop_back());
  Value all = call.value(1), flat;
  for (int64_t k = 0; k < depth; ++k) {
    Value part = build.reshape(build.slice(all, tuples, k, k + 1), shape);
    part = weighted(call, wrapNegativeIndices(call, part, data[batch + k]), indexed, batch + k);
    flat = flat ? build.add(flat, part) : part;
  }
  for (int64_t d = 0; d < batch; ++d)
    flat = build.add(flat,
                     weighted(call, indicesAlong(call, data[d], d, tuples), indexed, d));
  Shape table{*countElements(indexed)};
  table.append(data.begin() + batch + depth, data.end());
  UseKind role = depth == 1 && batch == 0 && rank >= 2 ? roleOfTable(call, rank) : UseKind::Plain;
  return single(gatherRows(call, build.reshape(call.value(0, role), table), flat));
}

ConvertResult convertGatherElements(NodeAdaptor &call) {
  if (!call.has(0) || !call.isInteger(1))
    return error("needs data and integer indices");
  Shape data = call.shape(0), ids = call.shape(1);
  int64_t rank = data.size();
  auto axis = normalAxis(call.node.integer("axis", 0), rank);
  bool fits = axis && ids.size() == data.size();
  for (int64_t d = 0; fits && d < rank; ++d)
    fits = d == *axis || ids[d] <= data[d];
  if (!fits)
    return error("indices of shape ", toText(ids), " do not index ", toText(data), " along axis ",
                 call.node.integer("axis", 0));
  Value flat = weighted(call, wrapNegativeIndices(call, call.value(1), data[*axis]), data, *axis);
  for (int64_t d = 0; d < rank; ++d)
    if (d != *axis && data[d] > 1)
      flat = call.build.add(flat, weighted(call, indicesAlong(call, ids[d], d, rank), data, d));
  Value elements = call.build.reshape(call.value(0), {*countElements(data)});
  return single(gatherRows(call, elements, flat));
}

// Converts OneHot: values[1] where the index along the new dim is the operand's, else values[0].
ConvertResult convertOneHot(NodeAdaptor &call) {
  const HostTensor *depth = call.constant(1);
  if (!call.has(0) || call.isBool(0) || !depth || depth->size() != 1 || !call.has(2) ||
      *countElements(call.shape(2)) != 2)
    return error("needs indices, a depth known at import, and two values");
  int64_t size = truncated(depth->number(0)), rank = call.shape(0).size() + 1;
  auto axis = normalAxis(call.node.integer("axis", -1), rank);
  if (!axis || size < 1)
    return error("axis ", call.node.integer("axis", -1), " of ", rank, " dims and depth ", size,
                 " make no one-hot tensor");
  graph::Build &build = call.build;
  Shape shape = call.shape(0);
  shape.insert(shape.begin() + *axis, 1);
  if (auto s = checkHostSize({*countElements(shape), size}); !s)
    return s.takeError();
  Value ids = wrapNegativeIndices(call, integers(call, build.reshape(call.value(0), shape)), size);
  Value hot = build.compare(ids, indicesAlong(call, size, *axis, rank), graph::Predicate::eq);
  Value values = call.value(2);
  auto at = [&](int64_t i) { return build.reshape(build.slice(values, 0, i, i + 1), {}); };
  return single(build.select(hot, at(1), at(0)));
}

ConvertResult convertEyeLike(NodeAdaptor &call) {
  Shape shape = call.shape(0);
  if (!call.has(0) || shape.size() != 2)
    return error("needs a matrix");
  if (auto s = checkHostSize(shape); !s)
    return s.takeError();
  auto type = call.node.has("dtype")
                  ? elementOf(static_cast<int32_t>(call.node.integer("dtype", 0)))
                  : std::optional(call.declared(0));
  if (!type)
    return error("to ", elementName(static_cast<int32_t>(call.node.integer("dtype", 0))),
                 " is not supported");
  HostTensor eye(*type, shape);
  int64_t shift = call.node.integer("k", 0);
  for (int64_t n = 0; n < eye.size(); ++n)
    eye.set(n, int64_t(n % shape[1] - n / shape[1] == shift));
  return std::vector<Operand>{known(std::move(eye))};
}

// Converts Compress: takes the elements (or slices along an axis) whose condition is true.
ConvertResult convertCompress(NodeAdaptor &call) {
  const HostTensor *condition = call.constant(1);
  if (!call.has(0) || !call.isBool(1) || !condition || condition->shape.size() != 1)
    return error("needs data, and a boolean vector known at import");
  Value x = call.value(0);
  if (!call.node.has("axis"))
    x = call.build.reshape(x, {*countElements(call.shape(0))});
  auto axis = normalAxis(call.node.integer("axis", 0), graph::shapeOf(x).size());
  if (!axis || condition->size() > graph::shapeOf(x)[*axis])
    return error("a condition of ", condition->size(), " elements does not fit shape ",
                 toText(graph::shapeOf(x)));
  Shape at;
  for (int64_t i = 0; i < condition->size(); ++i)
    if (condition->ints[i])
      at.push_back(i);
  return single(selectIndices(call, x, *axis, at));
}

// Converts ReverseSequence: reverses the first lengths[b] elements along the time dim of batch b.
ConvertResult convertReverseSequence(NodeAdaptor &call) {
  Shape shape = call.shape(0);
  int64_t time = call.node.integer("time_axis", 0), batch = call.node.integer("batch_axis", 1);
  if (!call.has(0) || !call.isInteger(1) || shape.size() < 2 || time + batch != 1 ||
      time * batch != 0 || call.shape(1) != Shape{shape[batch]})
    return error("needs data of two dims or more, and one length for each of the batch");
  graph::Build &build = call.build;
  Value x = call.value(0);
  Shape swap = swapped(shape.size(), 0, 1);
  if (time == 0)
    x = build.transpose(x, swap); // [batch, time, ...]
  int64_t rows = shape[batch], steps = shape[time];
  Value length = build.reshape(call.value(1), {rows, 1}), step = indicesAlong(call, steps, 1, 2);
  Value back = build.sub(build.sub(length, call.scalarLike(1, length)), step);
  Value at = build.select(build.compare(step, length, graph::Predicate::lt), back, step);
  Value first = build.mul(indicesAlong(call, rows, 0, 2), call.scalarLike(steps, length));
  Shape whole(graph::shapeOf(x)), flat(whole);
  flat.erase(flat.begin());
  flat[0] = rows * steps;
  x = gatherRows(call, build.reshape(x, flat), build.add(at, first));
  return single(time == 0 ? build.transpose(x, swap) : x);
}

} // namespace

ConvertFunction llmc::onnximport::findGatherConverter(llvm::StringRef op) {
  static const llvm::StringMap<ConvertFunction> table = {
      {"Gather", convertGather},
      {"GatherND", convertGatherND},
      {"GatherElements", convertGatherElements},
      {"OneHot", convertOneHot},
      {"Compress", convertCompress},
      {"EyeLike", convertEyeLike},
      {"ReverseSequence", convertReverseSequence},
  };
  return table.lookup(op);
}
