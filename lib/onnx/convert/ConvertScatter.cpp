// Converts ops that scatter elements into a tensor.
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

enum class Join { Replace, Add, Mul, Max, Min };

Result<Join> joinOf(NodeAdaptor &call) {
  std::string text = call.node.text("reduction", "none");
  for (auto [name, join] : {std::pair("none", Join::Replace), std::pair("add", Join::Add),
                            std::pair("mul", Join::Mul), std::pair("max", Join::Max),
                            std::pair("min", Join::Min)})
    if (text == name)
      return join;
  return error("reduction '", text, "' is not supported: none, add, mul, max and min are");
}

Value join(NodeAdaptor &call, Join how, Value old, Value update) {
  switch (how) {
  case Join::Replace:
    return update;
  case Join::Add:
    return call.build.add(old, update);
  case Join::Mul:
    return call.build.mul(old, update);
  case Join::Max:
    return maximum(call, old, update);
  case Join::Min:
    return minimum(call, old, update);
  }
  return update;
}

// Returns rounds of updates: for each row the index of its update, or -1 for none. The k-th update
// of a row is in round k.
std::vector<std::vector<int64_t>> rounds(const HostTensor &ids, int64_t rows) {
  std::vector<std::vector<int64_t>> out;
  std::vector<size_t> seen(rows, 0);
  for (int64_t i = 0; i < ids.size(); ++i) {
    size_t &round = seen[ids.ints[i]];
    if (round == out.size())
      out.emplace_back(rows, -1);
    out[round++][ids.ints[i]] = i;
  }
  return out;
}

// Scatters by known ids: in each round, each row gathers its update.
Value scatterKnown(NodeAdaptor &call, Value data, const HostTensor &ids, Value updates, Join how) {
  graph::Build &build = call.build;
  int64_t rows = graph::shapeOf(data)[0];
  for (const std::vector<int64_t> &at : rounds(ids, rows)) {
    HostTensor named(Element::Bool, {rows, 1});
    HostTensor from = HostTensor::vector(at);
    for (int64_t r = 0; r < rows; ++r) {
      named.ints[r] = at[r] >= 0;
      from.ints[r] = std::max<int64_t>(at[r], 0);
    }
    Value update = gatherRows(call, updates, call.materialize(from));
    data = build.select(call.materialize(named), join(call, how, data, update), data);
  }
  return data;
}

// Scatters by computed ids with a commutative join: compares all updates with all rows, which
// makes a tensor [updates, rows, inner]. Fails if that exceeds maxHostElements.
Result<Value> scatterByComparing(NodeAdaptor &call, Value data, Value ids, Value updates,
                                 Join how) {
  graph::Build &build = call.build;
  auto rows = graph::shapeOf(data)[0], inner = graph::shapeOf(data)[1];
  int64_t count = graph::shapeOf(ids)[0];
  if (auto s = checkHostSize({count, rows, inner}); !s)
    return s.takeError();
  Value named = build.compare(build.reshape(ids, {count, 1}), indicesAlong(call, rows, 1, 2),
                              graph::Predicate::eq);
  bool isFloat = graph::isFloat(data);
  double huge = isFloat ? std::numeric_limits<double>::infinity() : 4e18;
  double neutral = how == Join::Mul ? 1 : how == Join::Max ? -huge : huge;
  Value each = build.select(build.reshape(named, {count, rows, 1}),
                            build.reshape(updates, {count, 1, inner}),
                            call.scalarLike(neutral, data));
  Value all = how == Join::Mul   ? productKept(call, each, {0})
              : how == Join::Max ? reduceKept(call, each, graph::ReduceKind::max, {0})
                                 : minimumKept(call, each, {0});
  return join(call, how, data, build.reshape(all, {rows, inner}));
}

Value addRows(NodeAdaptor &call, Value ids, Value updates, Type type) {
  return graph::ScatterAddOp::create(call.build.builder, call.build.loc, type, ids, updates,
                                     Value());
}

// Scatters updates [count, inner] into the rows `ids` [count] of data [rows, inner]. ONNX does not
// define the result for rows that are replaced twice.
Result<Value> scatterRows(NodeAdaptor &call, Value data, Value ids, const HostTensor *known,
                          Value updates, Join how) {
  graph::Build &build = call.build;
  int64_t rows = graph::shapeOf(data)[0], count = graph::shapeOf(updates)[0];
  if (count == 0)
    return data;
  if (known)
    return scatterKnown(call, data, *known, updates, how);
  if (how != Join::Replace && how != Join::Add)
    return scatterByComparing(call, data, ids, updates, how);
  // graph.scatter_add adds numbers only.
  bool logical = graph::elementOf(data).isInteger(1);
  Value base = logical ? integers(call, data) : data;
  Value sums = addRows(call, ids, logical ? integers(call, updates) : updates, base.getType());
  if (how == Join::Add)
    return build.cast(build.add(base, sums), graph::elementOf(data));
  Value one = build.broadcast(call.scalar(1), {count});
  Value times = addRows(call, ids, one, RankedTensorType::get({rows}, call.build.builder.getF32Type()));
  Value named = build.compare(build.reshape(times, {rows, 1}), call.scalar(0), graph::Predicate::gt);
  return build.cast(build.select(named, sums, base), graph::elementOf(data));
}

// Returns the flat indices `at` of the known operand 1, nullopt if it is computed. Fails if one is
// out of range.
Result<std::optional<HostTensor>> knownFlat(NodeAdaptor &call, llvm::ArrayRef<int64_t> shape,
                                            llvm::function_ref<int64_t(const HostTensor &, int64_t)> at,
                                            int64_t count) {
  const HostTensor *ids = call.constant(1);
  if (!ids)
    return std::optional<HostTensor>();
  HostTensor out(Element::I64, {count});
  for (int64_t i = 0; i < count; ++i) {
    out.ints[i] = at(*ids, i);
    if (out.ints[i] < 0)
      return error("an index is outside shape ", toText(shape));
  }
  return std::optional(out);
}

int64_t normalIndex(int64_t index, int64_t size) {
  index = index < 0 ? index + size : index;
  return index >= 0 && index < size ? index : -1;
}

support::Status checkOperands(NodeAdaptor &call) {
  if (!call.has(0) || !call.isInteger(1) || !call.has(2) || call.element(0) != call.element(2))
    return error("needs data, integer indices, and updates of the data's type");
  return support::ok();
}

ConvertResult convertScatterND(NodeAdaptor &call) {
  if (auto s = checkOperands(call); !s)
    return s.takeError();
  auto how = joinOf(call);
  if (!how)
    return how.takeError();
  Shape data = call.shape(0), ids = call.shape(1);
  int64_t depth = ids.empty() ? 0 : ids.back();
  if (depth < 1 || depth > static_cast<int64_t>(data.size()))
    return error("index tuples of shape ", toText(ids), " do not index ", toText(data));
  llvm::ArrayRef<int64_t> indexed = llvm::ArrayRef<int64_t>(data).take_front(depth);
  Shape expected(llvm::ArrayRef<int64_t>(ids).drop_back());
  int64_t count = *countElements(expected), rows = *countElements(indexed);
  expected.append(data.begin() + depth, data.end());
  if (call.shape(2) != expected)
    return error("updates of shape ", toText(call.shape(2)), " must have ", toText(expected));
  Shape strides = rowMajor(indexed);
  auto known = knownFlat(call, data, [&](const HostTensor &t, int64_t i) {
    int64_t flat = 0;
    for (int64_t k = 0; k < depth; ++k) {
      int64_t at = normalIndex(t.ints[i * depth + k], data[k]);
      if (at < 0)
        return at;
      flat += at * strides[k];
    }
    return flat;
  }, count);
  if (!known)
    return known.takeError();
  graph::Build &build = call.build;
  Value flat;
  Value tuples = *known ? Value() : build.reshape(call.value(1), {count, depth});
  for (int64_t k = 0; !*known && k < depth; ++k) {
    Value part = build.reshape(build.slice(tuples, 1, k, k + 1), {count});
    part = wrapNegativeIndices(call, part, data[k]);
    part = build.mul(part, call.scalarLike(strides[k], part));
    flat = flat ? build.add(flat, part) : part;
  }
  int64_t inner = *countElements(llvm::ArrayRef<int64_t>(data).drop_front(depth));
  auto out = scatterRows(call, build.reshape(call.value(0), {rows, inner}), flat,
                         *known ? &**known : nullptr, build.reshape(call.value(2), {count, inner}),
                         *how);
  return out ? single(build.reshape(*out, data)) : ConvertResult(out.takeError());
}

ConvertResult convertScatterElements(NodeAdaptor &call) {
  if (auto s = checkOperands(call); !s)
    return s.takeError();
  auto how = joinOf(call);
  if (!how)
    return how.takeError();
  Shape data = call.shape(0), ids = call.shape(1);
  int64_t rank = data.size();
  auto axis = normalAxis(call.node.integer("axis", 0), rank);
  bool fits = axis && ids.size() == data.size() && call.shape(2) == ids;
  for (int64_t d = 0; fits && d < rank; ++d)
    fits = d == *axis || ids[d] <= data[d];
  if (!fits)
    return error("indices of shape ", toText(ids), " and updates of ", toText(call.shape(2)),
                 " do not fit ", toText(data), " along axis ", call.node.integer("axis", 0));
  Shape strides = rowMajor(data), own = rowMajor(ids);
  int64_t count = *countElements(ids), total = *countElements(data);
  auto known = knownFlat(call, data, [&](const HostTensor &t, int64_t i) {
    int64_t at = normalIndex(t.ints[i], data[*axis]);
    int64_t flat = at * strides[*axis];
    for (int64_t d = 0; d < rank; ++d)
      flat += d == *axis ? 0 : i / own[d] % ids[d] * strides[d];
    return at < 0 ? at : flat;
  }, count);
  if (!known)
    return known.takeError();
  graph::Build &build = call.build;
  Value flat;
  if (!*known) {
    flat = wrapNegativeIndices(call, call.value(1), data[*axis]);
    flat = build.mul(flat, call.scalarLike(strides[*axis], flat));
    for (int64_t d = 0; d < rank; ++d)
      if (d != *axis)
        flat = build.add(flat, build.mul(indicesAlong(call, ids[d], d, rank),
                                         call.scalarLike(strides[d], flat)));
    flat = build.reshape(flat, {count});
  }
  auto out = scatterRows(call, build.reshape(call.value(0), {total, 1}), flat,
                         *known ? &**known : nullptr, build.reshape(call.value(2), {count, 1}),
                         *how);
  return out ? single(build.reshape(*out, data)) : ConvertResult(out.takeError());
}

// Writes each sample's update into a cache [batch, ..., length, ...] from the sample's index on:
// each position of the cache gathers its element of the update.
ConvertResult convertTensorScatter(NodeAdaptor &call) {
  Shape cache = call.shape(0), update = call.shape(1);
  int64_t rank = cache.size();
  auto axis = normalAxis(call.node.integer("axis", -2), rank);
  bool circular = call.node.text("mode", "linear") == "circular";
  bool fits = call.has(0) && call.has(1) && call.element(0) == call.element(1) && axis &&
              *axis > 0 && update.size() == cache.size();
  for (int64_t d = 0; fits && d < rank; ++d)
    fits = d == *axis ? update[d] <= cache[d] && update[d] > 0 : update[d] == cache[d];
  if (!fits || (call.has(2) && (!call.isInteger(2) || call.shape(2) != Shape{cache[0]})))
    return error("cache of shape ", toText(cache), ", update of ", toText(update),
                 " and one index for each of the batch do not fit along axis ",
                 call.node.integer("axis", -2));
  graph::Build &build = call.build;
  int64_t batch = cache[0], length = cache[*axis], steps = update[*axis];
  Value at = indicesAlong(call, length, 1, 2);
  if (call.has(2))
    at = build.sub(at, build.reshape(call.value(2), {batch, 1}));
  else
    at = build.broadcast(at, {batch, length});
  if (circular)
    at = modulo(call, at, length);
  Value zero = call.scalarLike(0, at), last = call.scalarLike(steps - 1, at);
  Value written = make<graph::AndOp>(call, build.compare(at, zero, graph::Predicate::ge),
                                     build.compare(at, last, graph::Predicate::le));
  at = minimum(call, maximum(call, at, zero), last);
  at = build.add(at, build.mul(indicesAlong(call, batch, 0, 2), call.scalarLike(steps, at)));
  // Move the time dim next to the batch, gather rows of [batch * steps, rest], and move it back.
  Shape order = moved(rank, *axis, 1), back = moved(rank, 1, *axis);
  Value steady = build.transpose(call.value(1), order);
  Shape rows(graph::shapeOf(steady));
  rows.erase(rows.begin());
  rows[0] = batch * steps;
  Value taken = build.transpose(gatherRows(call, build.reshape(steady, rows), at), back);
  Shape mask(rank, 1);
  mask[0] = batch;
  mask[*axis] = length;
  return single(build.select(build.reshape(written, mask), taken, call.value(0)));
}

} // namespace

ConvertFunction llmc::onnximport::findScatterConverter(llvm::StringRef op) {
  static const llvm::StringMap<ConvertFunction> table = {
      {"ScatterND", convertScatterND},
      {"ScatterElements", convertScatterElements},
      {"Scatter", convertScatterElements}, // its name before 11
      {"TensorScatter", convertTensorScatter},
  };
  return table.lookup(op);
}
