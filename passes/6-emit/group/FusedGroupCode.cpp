// Emits the code of a group: its loads and what it computes from them.
#include "passes/6-emit/group/FusedGroup.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace llmc::emit {

bool FusedGroup::isUniform(const Access &access, const Point &point) const {
  for (auto [stride, index] : llvm::zip(access.strides, point.index))
    if (stride != 0 && !index)
      return false;
  return true;
}

// Returns the index of the (first) element, relative to the tensor.
Value FusedGroup::linear(const Access &access, const Point &point) {
  Value sum;
  for (auto [stride, index] : llvm::zip(access.strides, point.index)) {
    if (stride == 0)
      continue;
    Value term = kernel.mul(index, stride);
    sum = sum ? kernel.add(sum, term) : term;
  }
  if (!sum)
    return kernel.index(access.offset);
  return access.offset ? kernel.add(sum, kernel.index(access.offset)) : sum;
}

// Returns the stride of the vector loop, which a point of more than one element has entered
// last.
static int64_t lastStride(ArrayRef<int64_t> strides) { return strides.back(); }

Value FusedGroup::spread(Value value, const Point &point) {
  if (widthOf(value.getType()) == point.width)
    return value;
  return vector::BroadcastOp::create(kernel.b, kernel.loc, typeOf(value.getType(), point.width),
                                     value);
}

void FusedGroup::preload(Point &point) {
  for (auto [i, access] : llvm::enumerate(accesses)) {
    bool isRead = access.tensor && (access.buffer >= 0 || access.scalar >= 0);
    if (isRead && !point.loaded.contains(i) && isUniform(access, point)) {
      Point here = point;
      here.width = 1;
      point.loaded[i] = load(i, here);
    }
  }
}

Value FusedGroup::load(unsigned number, Point &point) {
  Access &access = accesses[number];
  if (Value value = point.loaded.lookup(number))
    return spread(value, point);
  if (access.scalar >= 0)
    return spread(kernel.scalar(access.scalar), point);
  if (access.data && access.data.isSplat()) {
    Attribute value = access.data.getSplatValue<Attribute>();
    Type computing = computingType(access.element), type = typeOf(computing, point.width);
    if (isNarrow(access.element))
      value = kernel.b.getFloatAttr(computing, access.data.getSplatValue<APFloat>().convertToDouble());
    if (point.width > 1)
      value = DenseElementsAttr::get(cast<VectorType>(type), value);
    return arith::ConstantOp::create(kernel.b, kernel.loc, cast<TypedAttr>(value));
  }
  Value base = access.data ? kernel.constantData(access.data) : kernel.buffer(access.buffer);
  Value first = linear(access, point);
  int64_t stride = lastStride(access.strides);
  if ((prefetchesNextRow || prefetchedLoop) && stride == 1 && !access.data)
    readAhead(access, base, first, point.width);
  if (point.width == 1 || stride == 1)
    return kernel.load(kernel.address(base, first, access.element), access.element, point.width);
  if (stride == 0)
    return spread(kernel.load(kernel.address(base, first, access.element), access.element), point);
  Value result = arith::ConstantOp::create(
      kernel.b, kernel.loc, kernel.b.getZeroAttr(typeOf(computingType(access.element), point.width)));
  for (unsigned lane = 0; lane < point.width; ++lane) {
    Value element = kernel.add(first, kernel.index(lane * stride));
    Value value = kernel.load(kernel.address(base, element, access.element), access.element);
    result = vector::InsertOp::create(kernel.b, kernel.loc, value, result, lane);
  }
  return result;
}

// Returns the values of an index along a dim, as i64.
Value FusedGroup::integers(unsigned number, Point &point) {
  Access &access = accesses[number];
  Value first = spread(linear(access, point), point);
  int64_t stride = lastStride(access.strides);
  if (point.width == 1 || stride == 0)
    return first;
  SmallVector<int64_t> steps;
  for (unsigned lane = 0; lane < point.width; ++lane)
    steps.push_back(lane * stride);
  auto type = cast<VectorType>(first.getType());
  Value step = arith::ConstantOp::create(kernel.b, kernel.loc,
                                         DenseElementsAttr::get(type, ArrayRef<int64_t>(steps)));
  return arith::AddIOp::create(kernel.b, kernel.loc, first, step);
}

// Emits iota, mask_tail and one_hot, where `i` is the index along their dim.
static Value applyIndexed(Math m, Operation *op, Value i, ArrayRef<Value> in) {
  OpBuilder &b = m.b;
  auto plus = [&](Value offset) { i = arith::AddIOp::create(b, m.loc, i, offset); };
  auto compare = [&](arith::CmpIPredicate predicate, Value x, Value y) -> Value {
    return arith::CmpIOp::create(b, m.loc, predicate, x, y);
  };
  auto floats = [&](double value, Value like) { return m.f(value, like); };
  if (auto iota = dyn_cast<graph::IotaOp>(op)) {
    if (iota.getOffset())
      plus(in[0]);
    Type element = computingType(getElementTypeOrSelf(op->getResult(0).getType()));
    Type type = typeOf(element, widthOf(i.getType()));
    if (isa<FloatType>(element))
      return arith::SIToFPOp::create(b, m.loc, type, i);
    return element.isInteger(64) ? i : arith::TruncIOp::create(b, m.loc, type, i).getResult();
  }
  if (auto mask = dyn_cast<graph::MaskTailOp>(op)) {
    if (mask.getOffset())
      plus(in[1]);
    Value isValid = compare(arith::CmpIPredicate::slt, i, m.i(mask.getValid(), i));
    bool isFloat = isa<FloatType>(elementOf(in[0].getType()));
    double value = mask.getValue().convertToDouble();
    return m.select(isValid, in[0],
                    isFloat ? floats(value, in[0]) : m.i(static_cast<int64_t>(value), in[0]));
  }
  auto oneHot = cast<graph::OneHotOp>(op);
  if (oneHot.getOffset())
    plus(in[2]);
  Value ids = in[0];
  if (elementOf(ids.getType()) != b.getI64Type())
    ids = arith::ExtSIOp::create(b, m.loc, i.getType(), ids);
  Value zero = arith::ConstantOp::create(b, m.loc, b.getZeroAttr(in[1].getType()));
  return m.select(compare(arith::CmpIPredicate::eq, i, ids), in[1], zero);
}

// Returns the scalar that `value` repeats, or null.
static Value repeated(Value value) {
  if (!isa<VectorType>(value.getType()))
    return value;
  auto spread = value.getDefiningOp<vector::BroadcastOp>();
  return spread && !isa<VectorType>(spread.getSource().getType()) ? spread.getSource() : Value();
}

// Emits one_hot of a single id along the vector: finds once, with i64 numbers, the lane on which
// it falls, and compares in lanes as narrow as the values. Returns null for any other one_hot.
Value FusedGroup::oneHotLane(graph::OneHotOp op, unsigned number, ArrayRef<Value> in,
                             Point &point) {
  const Access &access = accesses[number];
  Value id = repeated(in[0]), offset = op.getOffset() ? repeated(in[2]) : kernel.index(0);
  if (point.width == 1 || lastStride(access.strides) != 1 || !id || !offset)
    return {};
  OpBuilder &b = kernel.b;
  Location loc = kernel.loc;
  Math m = math();
  if (!id.getType().isInteger(64))
    id = arith::ExtSIOp::create(b, loc, b.getI64Type(), id);
  Value distance = kernel.sub(kernel.sub(id, offset), linear(access, point));
  Value isHere = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult, distance,
                                       kernel.index(point.width));
  Value lane = arith::TruncIOp::create(b, loc, b.getI32Type(), distance);
  lane = spread(m.select(isHere, lane, m.i(-1, lane)), point);
  auto numbers = llvm::to_vector(llvm::seq<int32_t>(0, point.width));
  Value lanes = arith::ConstantOp::create(
      b, loc, DenseElementsAttr::get(cast<VectorType>(lane.getType()), ArrayRef<int32_t>(numbers)));
  Value zero = arith::ConstantOp::create(b, loc, b.getZeroAttr(in[1].getType()));
  return m.select(arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, lanes, lane), in[1],
                  zero);
}

Value FusedGroup::at(Value tensor, const IndexMap &map, Point &point) {
  std::pair<Value, unsigned> key(tensor, intern(map));
  if (Value value = point.done.lookup(key))
    return value;
  Value value = compute(tensor, map, point);
  point.done[key] = value;
  return value;
}

Value FusedGroup::compute(Value tensor, const IndexMap &map, Point &point) {
  if (Value row = rowValues.lookup(tensor))
    return spread(row, point);
  if (auto it = elementValues.find(tensor); it != elementValues.end())
    return it->second(point);
  Operation *op = tensor.getDefiningOp();
  if (!op || isa<graph::ConstantOp>(op))
    return load(find(tensor, map), point);
  SmallVector<Value> in;
  for (unsigned i = 0; i < op->getNumOperands(); ++i)
    in.push_back(at(op->getOperand(i), *operandMap(op, i, map), point));
  if (auto oneHot = dyn_cast<graph::OneHotOp>(op))
    if (Value value =
            oneHotLane(oneHot, find(tensor, {map[*indexedDim(op)]}), in, point))
      return value;
  if (auto dim = indexedDim(op))
    return applyIndexed(math(), op, integers(find(tensor, {map[*dim]}), point), in);
  if (ElementwiseEmitter entry = lookupElementwise(op)) {
    Math m = math();
    SmallVector<Value> out;
    entry(m, op, in, out);
    for (auto [result, value] : llvm::zip(op->getResults(), out))
      point.done[{result, intern(map)}] = value;
    return out[cast<OpResult>(tensor).getResultNumber()];
  }
  return in[0]; // transpose, slice, broadcast, reshape
}

} // namespace llmc::emit
