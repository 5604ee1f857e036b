#include "lib/onnx/Conversion.h"
#include "llvm/ADT/StringMap.h"

using namespace llmc::onnximport;
using namespace llmc;
using namespace mlir;
using llmc::support::error;

namespace {

// Known indices along a dim of `size`, normal; dims of `ids` with equal indices
// are made 1.
support::Result<HostTensor> knownIndices(Call &call, int64_t size) {
  HostTensor ids = *call.compact(1);
  for (int64_t &id : ids.ints) {
    int64_t normal = id < 0 ? id + size : id;
    if (normal < 0 || normal >= size)
      return error("index ", id, " is outside a table of ", size,
                   " rows (if these are positions, the sequence is longer than the position "
                   "table: use --seq ",
                   size, " or less)");
    id = normal;
  }
  return ids;
}

// start where the indices are start, start + 1, ...
std::optional<int64_t> consecutive(const HostTensor &ids) {
  for (int64_t i = 1; i < ids.size(); ++i)
    if (ids.ints[i] != ids.ints[0] + i)
      return std::nullopt;
  return ids.size() ? std::optional(ids.ints[0]) : std::nullopt;
}

Shape gathered(llvm::ArrayRef<int64_t> data, int64_t axis, llvm::ArrayRef<int64_t> ids) {
  Shape out(data.take_front(axis));
  out.append(ids.begin(), ids.end());
  out.append(data.begin() + axis + 1, data.end());
  return out;
}

Value gatherRows(Call &call, Value table, Value ids) {
  Shape shape = gathered(graph::shapeOf(table), 0, graph::shapeOf(ids));
  return graph::GatherOp::create(call.build.builder, call.build.loc,
                                 RankedTensorType::get(shape, graph::elementOf(table)), table, ids,
                                 Value());
}

ConvertResult convertGather(Call &call) {
  if (!call.has(0) || !call.has(1) || call.isFloat(1))
    return error("needs data and integer indices");
  Shape data = call.shape(0);
  auto axis = normalAxis(call.node.integer("axis", 0), data.size());
  if (!axis)
    return error("axis ", call.node.integer("axis", 0), " is not one of ", data.size(), " dims");
  Role role = data.size() >= 2 && *axis == 0 ? Role::Table : Role::Plain;
  Shape result = gathered(data, *axis, call.shape(1));
  if (!call.compact(1)) {
    if (*axis != 0)
      return error("along axis ", *axis,
                   " is supported for indices that depend on shapes and constants only");
    return single(gatherRows(call, call.value(0, role), call.value(1)));
  }
  auto ids = knownIndices(call, data[*axis]);
  if (!ids)
    return ids.takeError();
  Value rows = call.value(0, role);
  if (auto start = consecutive(*ids)) {
    if (ids->size() != data[*axis])
      rows = call.build.slice(rows, *axis, *start, *start + ids->size());
  } else if (*axis == 0) {
    rows = gatherRows(call, rows, call.materialize(*ids));
  } else {
    return error("along axis ", *axis, " needs consecutive indices");
  }
  rows = call.build.reshape(rows, gathered(data, *axis, ids->shape));
  return single(call.build.broadcast(rows, result));
}

} // namespace

ConvertFunction llmc::onnximport::findIndexConverter(llvm::StringRef op) {
  return op == "Gather" ? convertGather : nullptr;
}
