// Converts ops on quantised tensors: x is about (q - zero point) * scale.
#include "lib/onnx/convert/Formula.h"
#include "llvm/ADT/StringMap.h"

using namespace llmc::onnximport;
using namespace llmc;
using namespace mlir;
using llmc::support::error;
using llmc::support::Result;

namespace {

// Returns operand `i` (scale or zero point) so that it broadcasts against x: it has one element,
// one for each index along `axis`, or one for each block of indices.
Result<Value> spread(NodeAdaptor &call, size_t i, llvm::ArrayRef<int64_t> x, int64_t axis,
                     int64_t block) {
  Shape own = call.shape(i);
  Value v = call.value(i);
  if (*countElements(own) == 1)
    return call.build.reshape(v, {});
  if (own.size() == 1 && own[0] == x[axis]) {
    Shape shape(x.size(), 1);
    shape[axis] = own[0];
    return call.build.reshape(v, shape);
  }
  Shape blocks(x);
  blocks[axis] = block > 0 ? (x[axis] + block - 1) / block : 0;
  if (own != blocks || block < 1)
    return error("operand ", i, " of shape ", toText(own), " fits neither axis ", axis, " of ",
                 toText(x), " nor blocks of ", block);
  Shape apart(own), wide, merged(own);
  apart.insert(apart.begin() + axis + 1, 1);
  wide = apart;
  wide[axis + 1] = block;
  merged[axis] *= block;
  v = call.build.broadcast(call.build.reshape(v, apart), wide);
  v = call.build.reshape(v, merged);
  return merged[axis] == x[axis] ? v : call.build.slice(v, axis, 0, x[axis]);
}

struct Parts {
  Value x, scale, zero; // zero may be null
};

// Returns operands 0 to 2 of QuantizeLinear and DequantizeLinear.
Result<Parts> partsOf(NodeAdaptor &call) {
  if (!call.has(0) || !call.isFloat(1) || call.isBool(0))
    return error("needs an operand of numbers and a float scale");
  Shape x = call.shape(0);
  int64_t given = call.node.integer("axis", 1), block = call.node.integer("block_size", 0);
  // With one scale and zero point for all elements, the axis has no meaning and is not checked.
  auto axis = normalAxis(given, x.size());
  bool all = *countElements(call.shape(1)) == 1 &&
             (!call.has(2) || *countElements(call.shape(2)) == 1);
  if (!axis && !all)
    return error("axis ", given, " is not one of ", x.size(), " dims");
  Parts parts;
  auto scale = spread(call, 1, x, axis.value_or(0), block);
  if (!scale)
    return scale.takeError();
  parts.scale = *scale;
  if (call.has(2)) {
    auto zero = spread(call, 2, x, axis.value_or(0), block);
    if (!zero)
      return zero.takeError();
    parts.zero = floats(call, *zero);
  }
  parts.x = floats(call, call.value(0));
  return parts;
}

ConvertResult convertDequantize(NodeAdaptor &call) {
  auto parts = partsOf(call);
  if (!parts)
    return parts.takeError();
  Value x = parts->zero ? call.build.sub(parts->x, parts->zero) : parts->x;
  Value out = call.build.mul(x, parts->scale);
  if (auto type = elementOf(static_cast<int32_t>(call.node.integer("output_dtype", 0))))
    return std::vector<Operand>{ComputedValue(out, *type)};
  return single(out);
}

// Rounds x, adds the zero point and clamps to the range of the type.
Value quantized(NodeAdaptor &call, Value x, Value zero, Element to) {
  graph::Build &build = call.build;
  x = make<graph::RoundOp>(call, x);
  x = zero ? build.add(x, zero) : x;
  int bits = bitWidth(to);
  bool isSigned = wrapTo(to, int64_t(1) << (bits - 1)) < 0;
  double low = isSigned ? -double(int64_t(1) << (bits - 1)) : 0;
  double high = double(int64_t(1) << (isSigned ? bits - 1 : bits)) - 1;
  x = minimum(call, maximum(call, x, call.scalar(low)), call.scalar(high));
  return integers(call, x);
}

ConvertResult convertQuantize(NodeAdaptor &call) {
  auto parts = partsOf(call);
  if (!parts)
    return parts.takeError();
  Element to = call.has(2) ? call.declared(2) : Element::U8;
  if (auto type = elementOf(static_cast<int32_t>(call.node.integer("output_dtype", 0))))
    to = *type;
  if (bitWidth(to) > 16)
    return error("to ", elementName(onnxTypeOf(to)), " is not supported");
  // A computed scale is rounded to float32 before the division: if the quotient by the exact scale
  // is a tie, that by the rounded scale may not be.
  bool isComputed = parts->scale.getDefiningOp() && !call.constant(1);
  Value scale = isComputed && call.declared(1) == Element::F32 ? roundToFloat32(call, parts->scale)
                                                               : parts->scale;
  Value x = call.build.div(parts->x, scale), out;
  if (!isFloat(to))
    out = quantized(call, roundBeforeInteger(call, x, bitWidth(to)), parts->zero, to);
  else if (bitWidth(to) <= 8)
    out = roundToSmall(call, x, to,
                       call.node.integer("saturate", 1) ? Overflow::Saturate : Overflow::Special);
  else
    return error("to ", elementName(onnxTypeOf(to)), " is not supported");
  return std::vector<Operand>{ComputedValue(out, to)};
}

// Quantizes to uint8, with a scale and zero point from the range of the elements and 0.
ConvertResult convertDynamicQuantize(NodeAdaptor &call) {
  if (auto s = needFloats(call, 1); !s)
    return s.takeError();
  graph::Build &build = call.build;
  Value x = call.value(0), zero = call.scalar(0), top = call.scalar(255);
  int64_t count = *countElements(call.shape(0));
  if (count == 0)
    return error("needs elements");
  Value flat = build.reshape(x, {count});
  Value high = maximum(call, build.reduce(flat, graph::ReduceKind::max, {0}), zero);
  Value low = build.neg(build.reduce(build.neg(flat), graph::ReduceKind::max, {0}));
  low = minimum(call, low, zero);
  Value range = build.sub(high, low); // of zeros alone, the scale is 1
  range = build.select(build.compare(range, zero, graph::Predicate::eq), top, range);
  Value scale = roundToFloat32(call, build.div(range, top));
  auto quotient = [&](Value y) { return roundBeforeInteger(call, build.div(y, scale), 8); };
  Value point = make<graph::RoundOp>(call, quotient(build.neg(low)));
  point = minimum(call, maximum(call, point, zero), top);
  Value out = quantized(call, quotient(x), point, Element::U8);
  return std::vector<Operand>{ComputedValue(out, Element::U8), ComputedValue(scale, Element::F32),
                              ComputedValue(integers(call, point), Element::U8)};
}

// Returns an operand of an integer product minus its zero point `i`, which has one element, or one
// for each row of the left or column of the right operand.
Result<Value> withoutZero(NodeAdaptor &call, size_t operand, size_t i) {
  Value x = floats(call, call.value(operand));
  if (!call.has(i))
    return x;
  Shape own = call.shape(i), shape = call.shape(operand);
  Value zero = floats(call, call.value(i));
  if (*countElements(own) == 1)
    return call.build.sub(x, call.build.reshape(zero, {}));
  size_t rows = shape.size() - 2;
  if (own.size() == 1 && operand == 0 && own[0] == shape[rows])
    return call.build.sub(x, call.build.reshape(zero, {own[0], 1}));
  auto joined = broadcastShapes(own, shape);
  if (!joined || *joined != shape)
    return error("zero point of shape ", toText(own), " does not fit ", toText(shape));
  return call.build.sub(x, zero);
}

Result<Value> integerProduct(NodeAdaptor &call, size_t lhs, size_t rhs, size_t lhsZero,
                             size_t rhsZero) {
  for (size_t i : {lhs, rhs})
    if (!call.isInteger(i) || call.shape(i).size() < 2)
      return error("needs two integer matrices");
  Shape a = call.shape(lhs), b = call.shape(rhs);
  auto batch = broadcastShapes(llvm::ArrayRef<int64_t>(a).drop_back(2),
                               llvm::ArrayRef<int64_t>(b).drop_back(2));
  if (!batch || a.back() != b[b.size() - 2] || batch->size() > 20)
    return error("shapes ", toText(a), " and ", toText(b), " do not multiply");
  auto x = withoutZero(call, lhs, lhsZero), y = withoutZero(call, rhs, rhsZero);
  if (!x)
    return x;
  if (!y)
    return y;
  std::string dims;
  for (size_t i = 0; i < batch->size(); ++i)
    dims += static_cast<char>('a' + i);
  Shape left = *batch, right = *batch;
  left.append(a.end() - 2, a.end());
  right.append(b.end() - 2, b.end());
  return call.build.matmul(dims + "xy," + dims + "yz->" + dims + "xz",
                           call.build.broadcast(*x, left), call.build.broadcast(*y, right),
                           call.build.builder.getF32Type());
}

// Converts by a product in f32, which is exact for integers of 8 bits up to sums of 2^24.
ConvertResult convertMatMulInteger(NodeAdaptor &call) {
  auto product = integerProduct(call, 0, 1, 2, 3);
  if (!product)
    return product.takeError();
  return std::vector<Operand>{ComputedValue(integers(call, *product), Element::I32)};
}

// Operands: a, its scale and zero point, the same of b, scale and zero point of y.
ConvertResult convertQLinearMatMul(NodeAdaptor &call) {
  for (size_t i = 0; i < 8; ++i)
    if (!call.has(i))
      return error("operand ", i, " is missing");
  for (size_t i : {1, 4, 6, 7})
    if (*countElements(call.shape(i)) != 1 || call.isFloat(i) != (i != 7))
      return error("is supported with one scale and zero point a tensor only");
  auto product = integerProduct(call, 0, 3, 2, 5);
  if (!product)
    return product.takeError();
  graph::Build &build = call.build;
  auto scalar = [&](size_t i) { return floats(call, build.reshape(call.value(i), {})); };
  Value factor = build.div(build.mul(scalar(1), scalar(4)), scalar(6));
  Element to = call.declared(7);
  if (isFloat(to) || bitWidth(to) > 8)
    return error("to ", elementName(onnxTypeOf(to)), " is not supported");
  Value out = quantized(call, build.mul(*product, factor), scalar(7), to);
  return std::vector<Operand>{ComputedValue(out, to)};
}

} // namespace

ConvertFunction llmc::onnximport::findQuantizeConverter(llvm::StringRef op) {
  static const llvm::StringMap<ConvertFunction> table = {
      {"DequantizeLinear", convertDequantize},
      {"QuantizeLinear", convertQuantize},
      {"DynamicQuantizeLinear", convertDynamicQuantize},
      {"MatMulInteger", convertMatMulInteger},
      {"QLinearMatMul", convertQLinearMatMul},
  };
  return table.lookup(op);
}
