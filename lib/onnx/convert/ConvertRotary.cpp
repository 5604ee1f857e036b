#include "lib/onnx/convert/Rotary.h"

using namespace llmc::onnximport;
using namespace llmc;
using namespace mlir;
using llmc::support::error;
using llmc::support::Result;

namespace {

// Returns `first` if the ids are first, first + 1, ... along the last dim and equal in all rows.
std::optional<int64_t> consecutiveRows(const HostTensor &ids) {
  int64_t columns = ids.shape.back();
  if (ids.size() != columns || columns == 0)
    return std::nullopt;
  for (int64_t i = 0; i < columns; ++i)
    if (ids.ints[i] != ids.ints[0] + i)
      return std::nullopt;
  return ids.ints[0];
}

// Returns rows [first, first + count) of table operand `i`; of a stored table only these are read.
Value tableRows(NodeAdaptor &call, size_t i, int64_t first, int64_t count) {
  if (const View *view = call.view(i); view && count * view->shape[1] > 1) {
    auto [value, dims] = call.weight(view->sliced({first, 0}, {count, view->shape[1]}), UseKind::Plain);
    bool swap = dims.size() == 2 && dims[0] > dims[1];
    return call.build.reshape(swap ? call.build.transpose(value, {1, 0}) : value,
                              {count, view->shape[1]});
  }
  return call.build.slice(call.value(i), 0, first, first + count);
}

Value lookUp(NodeAdaptor &call, size_t i, const HostTensor *known, Value computed) {
  if (!known)
    return gatherRows(call, call.value(i), computed);
  Shape shape(known->shape);
  shape.push_back(call.shape(i)[1]);
  if (auto first = consecutiveRows(*known))
    return call.build.reshape(tableRows(call, i, *first, known->shape.back()), shape);
  return gatherRows(call, call.value(i), call.materialize(*known));
}

} // namespace

Result<RotaryTables> llmc::onnximport::tablesAt(NodeAdaptor &call, size_t cos, size_t sin,
                                                const HostTensor *known, Value computed) {
  for (size_t i : {cos, sin})
    if (!call.isFloat(i) || call.shape(i).size() != 2 || call.shape(i) != call.shape(cos))
      return error("cos and sin must be float tables [positions, half] of one shape");
  int64_t positions = call.shape(cos)[0];
  if (known)
    for (int64_t id : known->ints)
      if (id < 0 || id >= positions)
        return error("position ", id, " is outside a table of ", positions,
                     " rows: use a shorter sequence");
  return RotaryTables{lookUp(call, cos, known, computed), lookUp(call, sin, known, computed)};
}

Result<Value> llmc::onnximport::rotate(NodeAdaptor &call, Value x, const RotaryTables &tables,
                                       bool interleaved) {
  Shape shape(graph::shapeOf(x)), cos(graph::shapeOf(tables.cos)), sin(graph::shapeOf(tables.sin));
  bool fits = shape.size() == 4 && cos.size() == 3 && cos == sin && cos[2] >= 1 &&
              (cos[0] == 1 || cos[0] == shape[0]) && cos[1] == shape[1] && 2 * cos[2] <= shape[3];
  if (!fits)
    return error("cos and sin of shapes ", toText(cos), " and ", toText(sin),
                 " (batch, rows, half) do not fit ", toText(shape), " (batch, rows, heads, dim)");
  graph::Build &b = call.build;
  auto unit = [&](bool on) { return on ? b.builder.getUnitAttr() : UnitAttr(); };
  return Value(graph::RotaryOp::create(b.builder, b.loc, x.getType(), x, tables.cos, tables.sin,
                                       unit(interleaved), UnitAttr()));
}

namespace {

// Holds x as [batch, rows, heads, dim], and whether the operand was [batch, heads, rows, dim].
struct Heads {
  Value x;
  bool fourDims;
};

Result<Heads> headsOf(NodeAdaptor &call, int64_t heads) {
  Shape shape = call.shape(0);
  if (!call.isFloat(0) || (shape.size() != 3 && shape.size() != 4))
    return error("needs floats of 3 or 4 dims, got ", toText(shape));
  if (shape.size() == 4)
    return Heads{call.build.transpose(call.value(0), {0, 2, 1, 3}), true};
  if (heads <= 0 || shape[2] % heads)
    return error("width ", shape[2], " is not divisible by ", heads, " heads");
  return Heads{call.build.reshape(call.value(0), {shape[0], shape[1], heads, shape[2] / heads}),
               false};
}

ConvertResult finish(NodeAdaptor &call, const Heads &heads, const RotaryTables &tables) {
  auto out = rotate(call, heads.x, tables, call.node.integer("interleaved", 0) != 0);
  if (!out)
    return out.takeError();
  return single(heads.fourDims ? call.build.transpose(*out, {0, 2, 1, 3})
                               : call.build.reshape(*out, call.shape(0)));
}

// Returns known positions [batch | 1, rows], with 1 if all samples agree; nullopt if not known.
std::optional<HostTensor> knownPositions(NodeAdaptor &call, size_t i) {
  const HostTensor *ids = call.compact(i);
  if (!ids || ids->isFloat() || ids->shape.size() != 2)
    return std::nullopt;
  HostTensor out = *ids;
  if (out.shape[1] != call.shape(i)[1])
    out = takeStrided(out, {out.shape[0], call.shape(i)[1]}, {out.shape[0] > 1 ? 1 : 0, 0});
  return out;
}

Result<RotaryTables> tablesBy(NodeAdaptor &call, size_t positions, size_t cos, size_t sin) {
  if (!call.isInteger(positions) || call.shape(positions).size() != 2)
    return error("positions must be integers [batch, rows], got ", toText(call.shape(positions)));
  auto known = knownPositions(call, positions);
  return tablesAt(call, cos, sin, known ? &*known : nullptr,
                  known ? Value() : call.value(positions));
}

// Fails unless the tables have half as many columns as elements of a head are rotated.
support::Status checkHalf(NodeAdaptor &call, const Heads &heads, const RotaryTables &tables) {
  int64_t part = call.node.integer("rotary_embedding_dim", 0);
  int64_t dim = part > 0 ? part : graph::shapeOf(heads.x)[3];
  int64_t half = graph::shapeOf(tables.cos)[2];
  if (half * 2 != dim)
    return error("cos and sin have ", half, " columns, half of ", dim, " are needed");
  return support::ok();
}

// Converts ONNX's op. Operands: X, cos, sin and, if these are tables, positions. Without
// positions cos and sin may have batch 1, as exporters write them.
ConvertResult convertRotary(NodeAdaptor &call) {
  auto heads = headsOf(call, call.node.integer("num_heads", 0));
  if (!heads)
    return heads.takeError();
  RotaryTables tables;
  if (call.has(3)) {
    auto found = tablesBy(call, 3, 1, 2);
    if (!found)
      return found.takeError();
    tables = *found;
  } else {
    for (size_t i : {1, 2})
      if (!call.isFloat(i) || call.shape(i).size() != 3)
        return error("cos and sin must be floats [batch, rows, half]");
    tables = {call.value(1), call.value(2)};
  }
  if (auto s = checkHalf(call, *heads, tables); !s)
    return s.takeError();
  return finish(call, *heads, tables);
}

// Converts com.microsoft's op. Operands: X, positions, cos, sin. A single position is that of the
// first row.
ConvertResult convertMicrosoftRotary(NodeAdaptor &call) {
  if (!call.isFloat(0) || !call.isInteger(1) || !call.isFloat(2) || call.shape(2).size() != 2)
    return error("needs X, positions and tables [positions, half]");
  if (call.node.integer("is_packed_batching", 0) || call.node.number("scale", 1) != 1)
    return error("packed batches and a scale are not supported");
  int64_t dim = call.shape(2)[1] * 2, count = call.node.integer("num_heads", 0);
  if (count == 0 && call.shape(0).size() == 3 && dim > 0)
    count = call.shape(0)[2] / dim;
  auto heads = headsOf(call, count);
  if (!heads)
    return heads.takeError();
  Result<RotaryTables> tables = error("");
  if (call.shape(1) == Shape{1}) {
    int64_t rows = graph::shapeOf(heads->x)[1];
    if (const HostTensor *first = call.constant(1)) {
      HostTensor ids(Element::I64, {1, rows});
      for (int64_t i = 0; i < rows; ++i)
        ids.ints[i] = first->ints[0] + i;
      tables = tablesAt(call, 2, 3, &ids, Value());
    } else {
      Value ids = call.build.add(indicesAlong(call, rows, 1, 2), call.value(1));
      tables = tablesAt(call, 2, 3, nullptr, ids);
    }
  } else {
    tables = tablesBy(call, 1, 2, 3);
  }
  if (!tables)
    return tables.takeError();
  return finish(call, *heads, *tables);
}

} // namespace

ConvertFunction llmc::onnximport::findRotaryConverter(llvm::StringRef op) {
  return op == "RotaryEmbedding"                    ? convertRotary
         : op == "com.microsoft::RotaryEmbedding" ? convertMicrosoftRotary
                                                  : nullptr;
}
