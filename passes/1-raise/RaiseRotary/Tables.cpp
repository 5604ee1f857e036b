#include "passes/1-raise/RaiseRotary/Lanes.h"

using namespace mlir;
using namespace llmc;
using namespace llmc::graph;
using namespace llmc::raise;

static ArrayRef<int64_t> lanesShape(const TableLane &lane) {
  return shapeOf(lane.table).take_back(lane.dims);
}

static int64_t count(ArrayRef<int64_t> shape) {
  int64_t n = 1;
  for (int64_t size : shape)
    n *= size;
  return n;
}

// Returns the one operand whose elements `op` maps one by one, if all others are constant scalars;
// nullopt for other ops.
static std::optional<unsigned> mappedOperand(Operation *op) {
  if (!isElementwise(op) && !isa_and_nonnull<CastOp>(op))
    return std::nullopt;
  std::optional<unsigned> mapped;
  for (OpOperand &operand : op->getOpOperands()) {
    if (scalarOf(operand.get()) && shapeOf(operand.get()).empty())
      continue;
    if (mapped || shapeOf(operand.get()) != shapeOf(op->getResult(0)))
      return std::nullopt;
    mapped = operand.getOperandNumber();
  }
  return mapped;
}

// Returns the lane from which the op of `lane` moves it; nullopt if the op does not move whole
// lanes.
static std::optional<TableLane> movedFrom(const TableLane &lane) {
  Operation *op = lane.table.getDefiningOp();
  ArrayRef<int64_t> shape = lanesShape(lane);
  size_t leading = shapeOf(lane.table).size() - lane.dims;
  if (auto reshape = dyn_cast_or_null<ReshapeOp>(op)) {
    ArrayRef<int64_t> from = shapeOf(reshape.getOperand());
    for (size_t dims = 0; dims <= from.size(); ++dims)
      if (count(from.take_back(dims)) == count(shape) && (dims || from.empty()))
        return TableLane{reshape.getOperand(), int64_t(dims), lane.lane};
    return std::nullopt;
  }
  if (!isa_and_nonnull<SliceOp, BroadcastOp, ConcatOp>(op))
    return std::nullopt;
  SmallVector<int64_t> at(shape.size());
  int64_t rest = lane.lane;
  for (size_t i = shape.size(); i-- > 0; rest /= shape[i])
    at[i] = rest % shape[i];
  auto laneOf = [&](Value from) -> std::optional<TableLane> {
    ArrayRef<int64_t> own = shapeOf(from);
    if (own.size() != leading + shape.size() ||
        own.take_front(leading) != shapeOf(lane.table).take_front(leading))
      return std::nullopt;
    int64_t flat = 0;
    for (auto [size, i] : llvm::zip(own.drop_front(leading), at))
      flat = flat * size + (size == 1 ? 0 : i);
    return TableLane{from, lane.dims, flat};
  };
  if (auto slice = dyn_cast<SliceOp>(op)) {
    for (size_t i = 0; i < at.size(); ++i)
      at[i] = slice.getStarts()[leading + i] + at[i] * slice.getSteps()[leading + i];
    return laneOf(slice.getOperand());
  }
  if (isa<BroadcastOp>(op))
    return laneOf(op->getOperand(0));
  auto concat = cast<ConcatOp>(op);
  if (concat.getDim() < leading)
    return std::nullopt;
  int64_t &along = at[concat.getDim() - leading];
  for (Value part : concat.getInputs()) {
    int64_t size = shapeOf(part)[concat.getDim()];
    if (along < size)
      return laneOf(part);
    along -= size;
  }
  return std::nullopt;
}

RotaryTableLanes::Id RotaryTableLanes::idOf(const TableLane &lane) {
  DenseElementsAttr dense = denseValueOf(lane.table);
  return {dense ? dense.getAsOpaquePointer() : lane.table.getAsOpaquePointer(), lane.dims,
          lane.lane};
}

// Describes how the lane is computed; equal texts mean equal numbers.
std::string RotaryTableLanes::keyOf(const TableLane &lane) {
  if (auto from = movedFrom(lane))
    return keyOf(*from);
  std::string text;
  llvm::raw_string_ostream out(text);
  Operation *op = lane.table.getDefiningOp();
  if (auto mapped = mappedOperand(op)) {
    out << op->getName() << op->getAttrDictionary() << elementOf(op->getResult(0));
    for (OpOperand &operand : op->getOpOperands())
      if (operand.getOperandNumber() != *mapped)
        out << operand.getOperandNumber() << ":"
            << llvm::bit_cast<uint64_t>(*scalarOf(operand.get()));
    out << "(" << keyOf({op->getOperand(*mapped), lane.dims, lane.lane}) << ")";
    return text;
  }
  auto [pointer, dims, index] = idOf(lane);
  out << pointer << "/" << dims << "/" << index;
  return text;
}

int RotaryTableLanes::compare(const TableLane &a, const TableLane &b) {
  DenseElementsAttr left = denseValueOf(a.table), right = denseValueOf(b.table);
  if (!left || !right)
    return keyOf(a) == keyOf(b);
  int64_t lanes = count(lanesShape(a)), others = count(lanesShape(b));
  Elements x(left), y(right);
  bool equal = true, negative = true;
  for (int64_t row = 0; (equal || negative) && row < x.size() / lanes; ++row) {
    double p = x[row * lanes + a.lane], q = y[row * others + b.lane];
    equal &= p == q;
    negative &= p == -q;
  }
  return equal ? 1 : negative ? -1 : 0;
}

// Returns the sizes in front of the lanes, which decide where a row is used, without leading ones.
static ArrayRef<int64_t> rowsShape(const TableLane &lane) {
  return shapeOf(lane.table).drop_back(lane.dims).drop_while([](int64_t size) {
    return size == 1;
  });
}

int RotaryTableLanes::relation(const TableLane &a, const TableLane &b) {
  if (rowsShape(a) != rowsShape(b))
    return 0;
  Id left = idOf(a), right = idOf(b);
  if (left == right)
    return 1;
  auto [found, added] = relations.try_emplace({left, right}, 0);
  if (added)
    found->second = compare(a, b);
  return found->second;
}

// Returns the lanes from which one op moved all of `lanes`; nullopt if there is no such op.
static std::optional<SmallVector<TableLane>> pullBack(ArrayRef<TableLane> lanes) {
  SmallVector<TableLane> from;
  for (const TableLane &lane : lanes) {
    auto moved = movedFrom(lane);
    if (!moved || (!from.empty() && (moved->table != from[0].table || moved->dims != from[0].dims)))
      return std::nullopt;
    from.push_back(*moved);
  }
  return from;
}

// Builds a constant of some of the lanes of a constant.
static Value selectConstant(OpBuilder &builder, DenseElementsAttr dense,
                            ArrayRef<TableLane> lanes) {
  Elements elements(dense);
  int64_t all = count(lanesShape(lanes[0])), rows = elements.size() / all;
  SmallVector<int64_t> shape(shapeOf(lanes[0].table).drop_back(lanes[0].dims));
  shape.push_back(lanes.size());
  Tensor values(std::vector<int64_t>(shape.begin(), shape.end()));
  for (int64_t row = 0; row < rows; ++row)
    for (auto [i, lane] : llvm::enumerate(lanes))
      values.data[row * lanes.size() + i] = elements[row * all + lane.lane];
  auto type = RankedTensorType::get(shape, dense.getElementType());
  return ConstantOp::create(builder, lanes[0].table.getLoc(), type, denseOf(values, type));
}

Value RotaryTableLanes::pull(OpBuilder &builder, ArrayRef<TableLane> lanes) {
  const TableLane &first = lanes[0];
  Operation *op = first.table.getDefiningOp();
  SmallVector<int64_t> shape(shapeOf(first.table).drop_back(first.dims));
  shape.push_back(lanes.size());
  Build build(builder, first.table.getLoc());
  if (DenseElementsAttr dense = denseValueOf(first.table))
    return selectConstant(builder, dense, lanes);
  if (auto from = pullBack(lanes)) {
    Value pulled = pull(builder, *from);
    return pulled ? build.reshape(pulled, shape) : Value();
  }
  if (auto mapped = mappedOperand(op)) {
    SmallVector<TableLane> from(lanes);
    for (TableLane &lane : from)
      lane.table = op->getOperand(*mapped);
    if (Value pulled = pull(builder, from)) {
      SmallVector<Value> operands(op->getOperands());
      operands[*mapped] = pulled;
      return cloneForTypes(builder, op, operands,
                           RankedTensorType::get(shape, elementOf(first.table)))
          ->getResult(0);
    }
  }
  // The remaining case is a slice of evenly spaced lanes.
  int64_t step = lanes.size() > 1 ? lanes[1].lane - first.lane : 1;
  for (auto [i, lane] : llvm::enumerate(lanes))
    if (step < 1 || lane.lane != first.lane + int64_t(i) * step)
      return {};
  SmallVector<int64_t> whole = shape;
  whole.back() = count(lanesShape(first));
  SmallVector<int64_t> starts(shape.size(), 0), limits = whole, steps(shape.size(), 1);
  starts.back() = first.lane;
  limits.back() = lanes.back().lane + 1;
  steps.back() = step;
  Value flat = build.reshape(first.table, whole);
  if (whole == shape)
    return flat;
  return SliceOp::create(builder, build.loc, RankedTensorType::get(shape, elementOf(first.table)),
                         flat, starts, limits, steps);
}

Value RotaryTableLanes::select(ArrayRef<TableLane> lanes) {
  std::vector<Id> key;
  for (const TableLane &lane : lanes) {
    if (lane.table != lanes[0].table && idOf(lane) != idOf({lanes[0].table, lane.dims, lane.lane}))
      return {};
    key.push_back(idOf(lane));
  }
  // Insert right behind the table, so that every later layer may use it; constants go in front.
  Value table = lanes[0].table;
  OpBuilder builder(table.getContext());
  if (denseValueOf(table))
    builder.setInsertionPointToStart(table.getParentBlock());
  else
    builder.setInsertionPointAfterValue(table);
  auto [found, added] = selected.try_emplace(key);
  if (added)
    found->second = pull(builder, lanes);
  return found->second;
}
