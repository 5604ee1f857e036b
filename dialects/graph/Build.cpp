#include "dialects/graph/Build.h"

using namespace mlir;

namespace llmc::graph {

std::optional<SmallVector<int64_t>> broadcastShapes(ArrayRef<int64_t> a, ArrayRef<int64_t> b) {
  if (a.size() < b.size())
    std::swap(a, b);
  SmallVector<int64_t> shape(a.begin(), a.end());
  size_t shift = a.size() - b.size();
  for (auto [i, size] : llvm::enumerate(b)) {
    int64_t &dim = shape[shift + i];
    if (dim != size && dim != 1 && size != 1)
      return std::nullopt;
    if (dim == 1)
      dim = size;
  }
  return shape;
}

static DenseElementsAttr splat(RankedTensorType type, double value) {
  if (auto element = dyn_cast<FloatType>(type.getElementType())) {
    APFloat number(value);
    bool lost;
    number.convert(element.getFloatSemantics(), APFloat::rmNearestTiesToEven, &lost);
    return DenseElementsAttr::get(type, number);
  }
  unsigned width = type.getElementTypeBitWidth();
  return DenseElementsAttr::get(type, APInt(width, static_cast<int64_t>(value), true, true));
}

Value Build::constant(double value, Type element) {
  auto type = RankedTensorType::get({}, element);
  return ConstantOp::create(builder, loc, type, splat(type, value));
}
Value Build::constantLike(double value, Value like) {
  return ConstantOp::create(builder, loc, typeOf(like), splat(typeOf(like), value));
}

Value Build::add(Value a, Value b) { return AddOp::create(builder, loc, a, b); }
Value Build::sub(Value a, Value b) { return SubOp::create(builder, loc, a, b); }
Value Build::mul(Value a, Value b) { return MulOp::create(builder, loc, a, b); }
Value Build::div(Value a, Value b) { return DivOp::create(builder, loc, a, b); }
Value Build::neg(Value a) { return NegOp::create(builder, loc, a); }
Value Build::exp(Value a) { return ExpOp::create(builder, loc, a); }
Value Build::scale(Value a, double factor) { return mul(a, constant(factor, elementOf(a))); }
Value Build::oneMinus(Value a) { return sub(constant(1, elementOf(a)), a); }
Value Build::compare(Value a, Value b, Predicate predicate) {
  return CompareOp::create(builder, loc, a, b, predicate);
}
Value Build::select(Value condition, Value a, Value b) {
  return SelectOp::create(builder, loc, condition, a, b);
}
Value Build::cast(Value a, Type element) {
  if (elementOf(a) == element)
    return a;
  // Takes back a cast between floats that lost no digit.
  if (auto made = a.getDefiningOp<CastOp>();
      made && isFloat(a) && isFloat(made.getOperand()) &&
      elementOf(made.getOperand()) == element &&
      element.getIntOrFloatBitWidth() < elementOf(a).getIntOrFloatBitWidth())
    return made.getOperand();
  return CastOp::create(builder, loc, RankedTensorType::get(shapeOf(a), element), a);
}

Value Build::reshape(Value a, ArrayRef<int64_t> shape) {
  if (shapeOf(a) == shape)
    return a;
  return ReshapeOp::create(builder, loc, RankedTensorType::get(shape, elementOf(a)), a);
}
Value Build::broadcast(Value a, ArrayRef<int64_t> shape) {
  if (shapeOf(a) == shape)
    return a;
  return BroadcastOp::create(builder, loc, RankedTensorType::get(shape, elementOf(a)), a);
}
Value Build::transpose(Value a, ArrayRef<int64_t> permutation) {
  SmallVector<int64_t> shape;
  for (int64_t dim : permutation)
    shape.push_back(shapeOf(a)[dim]);
  return TransposeOp::create(builder, loc, RankedTensorType::get(shape, elementOf(a)), a,
                             permutation);
}
Value Build::slice(Value a, int64_t dim, int64_t start, int64_t limit) {
  SmallVector<int64_t> shape(shapeOf(a)), starts(shape.size(), 0), limits(shape),
      steps(shape.size(), 1);
  starts[dim] = start;
  limits[dim] = limit;
  shape[dim] = limit - start;
  return SliceOp::create(builder, loc, RankedTensorType::get(shape, elementOf(a)), a, starts,
                         limits, steps);
}
Value Build::concat(ArrayRef<Value> parts, int64_t dim) {
  SmallVector<int64_t> shape(shapeOf(parts.front()));
  shape[dim] = 0;
  for (Value part : parts)
    shape[dim] += shapeOf(part)[dim];
  return ConcatOp::create(builder, loc, RankedTensorType::get(shape, elementOf(parts.front())),
                          parts, dim);
}
Value Build::reduce(Value a, ReduceKind kind, ArrayRef<int64_t> dims) {
  SmallVector<int64_t> shape;
  for (auto [i, size] : llvm::enumerate(shapeOf(a)))
    if (!llvm::is_contained(dims, static_cast<int64_t>(i)))
      shape.push_back(size);
  return ReduceOp::create(builder, loc, RankedTensorType::get(shape, elementOf(a)), a, kind, dims);
}

Value Build::matmul(StringRef equation, Value a, Value b, Type element) {
  std::map<char, int64_t> sizes;
  size_t comma = equation.find(','), arrow = equation.find("->");
  for (auto [letter, size] : llvm::zip(equation.take_front(comma), shapeOf(a)))
    sizes[letter] = size;
  for (auto [letter, size] : llvm::zip(equation.slice(comma + 1, arrow), shapeOf(b)))
    sizes[letter] = size;
  SmallVector<int64_t> shape;
  for (char letter : equation.drop_front(arrow + 2))
    shape.push_back(sizes[letter]);
  return MatmulOp::create(builder, loc, RankedTensorType::get(shape, element), equation, a, b);
}

Value Build::sumTo(Value a, ArrayRef<int64_t> shape) {
  ArrayRef<int64_t> from = shapeOf(a);
  size_t shift = from.size() - shape.size();
  SmallVector<int64_t> dims;
  for (size_t i = 0; i < from.size(); ++i)
    if (i < shift || (shape[i - shift] == 1 && from[i] != 1))
      dims.push_back(i);
  if (!dims.empty())
    a = reduce(a, ReduceKind::sum, dims);
  return reshape(a, shape);
}

Value Build::unreduce(Value a, ArrayRef<int64_t> dims, ArrayRef<int64_t> shape) {
  SmallVector<int64_t> kept(shape);
  for (int64_t dim : dims)
    kept[dim] = 1;
  return broadcast(reshape(a, kept), shape);
}

Operation *cloneForTypes(OpBuilder &builder, Operation *op, ValueRange operands,
                         TypeRange resultTypes) {
  Operation *copy = op->cloneWithoutRegions();
  copy->setOperands(operands);
  for (auto [result, type] : llvm::zip(copy->getResults(), resultTypes))
    result.setType(type);
  if (auto slice = dyn_cast<SliceOp>(op)) {
    SmallVector<int64_t> limits(slice.getLimits());
    for (auto [i, size] : llvm::enumerate(shapeOf(slice.getOperand())))
      if (slice.getStarts()[i] == 0 && limits[i] == size && slice.getSteps()[i] == 1)
        limits[i] = shapeOf(operands[0])[i];
    cast<SliceOp>(copy).setLimits(limits);
  } else if (auto constant = dyn_cast<ConstantOp>(op)) {
    auto dense = dyn_cast<DenseElementsAttr>(constant.getValue());
    if (dense && dense.isSplat())
      cast<ConstantOp>(copy).setValueAttr(dense.resizeSplat(cast<ShapedType>(resultTypes[0])));
  }
  builder.insert(copy);
  return copy;
}

} // namespace llmc::graph
