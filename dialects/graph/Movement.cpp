// Implements constants and the ops that only move elements.
#include "dialects/graph/Detail.h"

#include <numeric>

using namespace mlir;
using namespace llmc::graph;

static LogicalResult verifySameElement(Operation *op, StringRef rule) {
  for (Value operand : op->getOperands())
    if (elementOf(operand) != elementOf(op->getResult(0)))
      return op->emitOpError() << rule << ": result has element type "
                               << elementOf(op->getResult(0)) << ", expected "
                               << elementOf(operand) << ", the operand's";
  return success();
}
static LogicalResult verifyResultShape(Operation *op, StringRef rule, ArrayRef<int64_t> expected) {
  if (shapeOf(op->getResult(0)) != expected)
    return op->emitOpError() << rule << ": result shape is "
                             << shapeText(shapeOf(op->getResult(0))) << ", expected "
                             << shapeText(expected);
  return success();
}
static LogicalResult verifyCount(Operation *op, StringRef name, size_t got, size_t rank) {
  if (got != rank)
    return op->emitOpError("C1: ") << name << " has " << got << " entries, expected one for each "
                                   << "of the " << rank << " dimensions";
  return success();
}

//===-- constant, iota ------------------------------------------------------===//

static bool isSplat(ConstantOp op) {
  auto dense = dyn_cast<DenseElementsAttr>(op.getValue());
  return dense && dense.isSplat();
}

LogicalResult ConstantOp::verify() {
  if (!isa<DenseIntOrFPElementsAttr>(getValue()))
    return emitOpError("C1: value is not dense, expected dense<...>");
  return success();
}
ShardingRule ConstantOp::getShardingRule() {
  ShardingRule rule;
  rule.results.push_back(addFactors(rule, shapeOf(getResult()),
                                    isSplat(*this) ? FactorKind::Parallel
                                                   : FactorKind::Replicated));
  return rule;
}
template <typename T>
static void meaning(ConstantOp op, Inputs<T>, Outputs<T> outputs) {
  auto value = cast<DenseIntOrFPElementsAttr>(op.getValue());
  T *out = outputs[0].data.data();
  if (isa<FloatType>(value.getElementType())) {
    for (const APFloat &number : value.getValues<APFloat>())
      *out++ = number.convertToDouble();
    return;
  }
  bool logical = value.getElementType().isInteger(1);
  for (const APInt &number : value.getValues<APInt>())
    *out++ = logical ? double(number.getBoolValue()) : double(number.getSExtValue());
}
LLMC_EVALUATE(ConstantOp)
LogicalResult ConstantOp::differentiate(OpBuilder &, ArrayRef<Value>,
                                        SmallVectorImpl<Value> &gradients) {
  return noGradient(*this, gradients);
}
EmitClass ConstantOp::getEmitClass() {
  return isSplat(*this) ? EmitClass::Elementwise : EmitClass::Movement;
}

LogicalResult IotaOp::verify() {
  int64_t dim = getDim(), rank = getResult().getType().getRank();
  if (dim < 0 || dim >= rank)
    return emitOpError("C1: dim is ") << dim << ", expected 0 or more and less than the rank "
                                      << rank;
  return success();
}
ShardingRule IotaOp::getShardingRule() {
  ShardingRule rule;
  rule.operands.resize((*this)->getNumOperands());
  rule.results.push_back(addFactors(rule, shapeOf(getResult())));
  rule.offsetFactor = rule.results[0][getDim()][0];
  return rule;
}
template <typename T>
static void meaning(IotaOp op, Inputs<T> inputs, Outputs<T> outputs) {
  Strides along(outputs[0].shape.size(), 0);
  along[op.getDim()] = 1;
  T *out = outputs[0].data.data();
  double first = offsetOf(inputs, 0);
  forEach(outputs[0].shape, {along}, [&](const int64_t *index) { *out++ = first + index[0]; });
}
LLMC_EVALUATE(IotaOp)
LogicalResult IotaOp::differentiate(OpBuilder &, ArrayRef<Value>,
                                    SmallVectorImpl<Value> &gradients) {
  return noGradient(*this, gradients);
}
EmitClass IotaOp::getEmitClass() { return EmitClass::Elementwise; }

//===-- reshape -------------------------------------------------------------===//

LogicalResult ReshapeOp::verify() {
  if (getOperand().getType().getNumElements() != getResult().getType().getNumElements())
    return emitOpError("C1: result has ") << getResult().getType().getNumElements()
                                          << " elements, expected "
                                          << getOperand().getType().getNumElements()
                                          << ", as many as the operand";
  return verifySameElement(*this, "C2");
}

namespace {
// Iterates over the dimensions of one shape, major first, and collects their factors.
struct Cursor {
  ArrayRef<int64_t> shape;
  TensorFactors factors = TensorFactors(shape.size());
  size_t next = 0;
  int64_t left = 1; // of dimension next - 1

  bool advance() {
    while (left == 1 && next < shape.size())
      left = shape[next++];
    return left != 1;
  }
  void take(unsigned factor, int64_t size) {
    factors[next - 1].push_back(factor);
    left /= size;
  }
};
} // namespace

// Adds replicated factors where the pieces do not nest (3 x 4 into 4 x 3), up to the point where
// both cursors have passed equally many elements again.
static void keepWhole(ShardingRule &rule, Cursor &from, Cursor &to) {
  int64_t seenFrom = 1, seenTo = 1;
  do {
    bool first = seenFrom <= seenTo;
    Cursor &behind = first ? from : to;
    behind.advance();
    int64_t size = behind.left;
    (first ? seenFrom : seenTo) *= size;
    behind.take(rule.addFactor(size, FactorKind::Replicated), size);
  } while (seenFrom != seenTo);
}

// Makes each factor a common piece of the two shapes, so that a split or merged dimension has
// several, major first.
ShardingRule ReshapeOp::getShardingRule() {
  ShardingRule rule;
  rule.linearIn = {{0}};
  Cursor from{shapeOf(getOperand())}, to{shapeOf(getResult())};
  if (getResult().getType().getNumElements() != 0)
    while (from.advance() && to.advance()) {
      int64_t common = std::gcd(from.left, to.left);
      bool nested = common == from.left || common == to.left;
      if (common > 1) {
        unsigned factor = rule.addFactor(common);
        from.take(factor, common);
        to.take(factor, common);
      }
      if (!nested)
        keepWhole(rule, from, to);
    }
  rule.operands.push_back(from.factors);
  rule.results.push_back(to.factors);
  return rule;
}
template <typename T>
static void meaning(ReshapeOp op, Inputs<T> inputs, Outputs<T> outputs) { outputs[0].data = inputs[0]->data; }
LLMC_EVALUATE(ReshapeOp)
LogicalResult ReshapeOp::differentiate(OpBuilder &builder, ArrayRef<Value> cotangents,
                                       SmallVectorImpl<Value> &gradients) {
  gradients.assign(1, Value());
  if (cotangents[0])
    gradients[0] = Build(builder, getLoc()).reshape(cotangents[0], shapeOf(getOperand()));
  return success();
}
EmitClass ReshapeOp::getEmitClass() { return EmitClass::Alias; }

//===-- transpose -----------------------------------------------------------===//

LogicalResult TransposeOp::verify() {
  ArrayRef<int64_t> from = shapeOf(getOperand()), permutation = getPermutation();
  if (failed(verifyCount(*this, "permutation", permutation.size(), from.size())))
    return failure();
  SmallVector<bool> seen(from.size(), false);
  SmallVector<int64_t> expected;
  for (int64_t dim : permutation) {
    if (dim < 0 || dim >= static_cast<int64_t>(from.size()) || seen[dim])
      return emitOpError("C2: permutation ")
             << shapeText(permutation) << " does not name every dimension once";
    seen[dim] = true;
    expected.push_back(from[dim]);
  }
  if (failed(verifyResultShape(*this, "C3", expected)))
    return failure();
  return verifySameElement(*this, "C4");
}
ShardingRule TransposeOp::getShardingRule() {
  ShardingRule rule;
  rule.linearIn = {{0}};
  rule.operands.push_back(addFactors(rule, shapeOf(getOperand())));
  TensorFactors result;
  for (int64_t dim : getPermutation())
    result.push_back(rule.operands[0][dim]);
  rule.results.push_back(result);
  return rule;
}
template <typename T>
static void meaning(TransposeOp op, Inputs<T> inputs, Outputs<T> outputs) {
  Strides own = inputs[0]->strides(), strides;
  for (int64_t dim : op.getPermutation())
    strides.push_back(own[dim]);
  T *out = outputs[0].data.data();
  forEach(outputs[0].shape, {strides},
          [&](const int64_t *from) { *out++ = inputs[0]->data[from[0]]; });
}
LLMC_EVALUATE(TransposeOp)
LogicalResult TransposeOp::differentiate(OpBuilder &builder, ArrayRef<Value> cotangents,
                                         SmallVectorImpl<Value> &gradients) {
  gradients.assign(1, Value());
  if (!cotangents[0])
    return success();
  SmallVector<int64_t> inverse(getPermutation().size());
  for (auto [i, dim] : llvm::enumerate(getPermutation()))
    inverse[dim] = i;
  gradients[0] = Build(builder, getLoc()).transpose(cotangents[0], inverse);
  return success();
}
EmitClass TransposeOp::getEmitClass() { return EmitClass::Movement; }

//===-- broadcast -----------------------------------------------------------===//

LogicalResult BroadcastOp::verify() {
  auto joined = broadcastShapes(shapeOf(getOperand()), shapeOf(getResult()));
  if (!joined || ArrayRef<int64_t>(*joined) != shapeOf(getResult()))
    return emitOpError("C1: operand of shape ")
           << shapeText(shapeOf(getOperand())) << " does not broadcast to "
           << shapeText(shapeOf(getResult()));
  return verifySameElement(*this, "C2");
}
ShardingRule BroadcastOp::getShardingRule() { return elementwiseRule(*this, {{0}}); }
template <typename T>
static void meaning(BroadcastOp op, Inputs<T> inputs, Outputs<T> outputs) {
  T *out = outputs[0].data.data();
  forEach(outputs[0].shape, {broadcastStrides(inputs[0]->shape, outputs[0].shape)},
          [&](const int64_t *from) { *out++ = inputs[0]->data[from[0]]; });
}
LLMC_EVALUATE(BroadcastOp)
LogicalResult BroadcastOp::differentiate(OpBuilder &builder, ArrayRef<Value> cotangents,
                                         SmallVectorImpl<Value> &gradients) {
  return setOperandCotangents(*this, builder, cotangents, gradients,
                  [](Build &, Value g, unsigned) { return g; });
}
EmitClass BroadcastOp::getEmitClass() { return EmitClass::Movement; }

//===-- slice ---------------------------------------------------------------===//

LogicalResult SliceOp::verify() {
  ArrayRef<int64_t> shape = shapeOf(getOperand());
  if (failed(verifyCount(*this, "starts", getStarts().size(), shape.size())) ||
      failed(verifyCount(*this, "limits", getLimits().size(), shape.size())) ||
      failed(verifyCount(*this, "steps", getSteps().size(), shape.size())))
    return failure();
  SmallVector<int64_t> expected;
  for (size_t i = 0; i < shape.size(); ++i) {
    int64_t start = getStarts()[i], limit = getLimits()[i], step = getSteps()[i];
    if (start < 0 || start > limit || limit > shape[i] || step < 1)
      return emitOpError("C2: dimension ")
             << i << " has start " << start << ", limit " << limit << " and step " << step
             << ", expected 0 <= start <= limit <= " << shape[i] << " and step >= 1";
    expected.push_back((limit - start + step - 1) / step);
  }
  if (failed(verifyResultShape(*this, "C3", expected)))
    return failure();
  return verifySameElement(*this, "C4");
}

// Returns the rule by which dimensions i with keeps(i) are cut together in operands and result; the
// others have a replicated factor each.
static ShardingRule keptDims(Operation *op, function_ref<bool(size_t)> keeps) {
  ShardingRule rule;
  ArrayRef<int64_t> to = shapeOf(op->getResult(0));
  TensorFactors result;
  for (auto [i, size] : llvm::enumerate(to))
    result.push_back(
        {rule.addFactor(size, keeps(i) ? FactorKind::Parallel : FactorKind::Replicated)});
  for (Value operand : op->getOperands()) {
    TensorFactors factors;
    for (auto [i, size] : llvm::enumerate(shapeOf(operand)))
      factors.push_back(keeps(i) ? result[i]
                                 : DimFactors{rule.addFactor(size, FactorKind::Replicated)});
    rule.operands.push_back(factors);
  }
  rule.results.push_back(result);
  rule.linearIn.emplace_back();
  for (unsigned i = 0; i < op->getNumOperands(); ++i)
    rule.linearIn[0].push_back(i);
  return rule;
}

ShardingRule SliceOp::getShardingRule() {
  return keptDims(*this, [&](size_t i) {
    return getStarts()[i] == 0 && getSteps()[i] == 1 &&
           getLimits()[i] == shapeOf(getOperand())[i];
  });
}
template <typename T>
static void meaning(SliceOp op, Inputs<T> inputs, Outputs<T> outputs) {
  Strides strides = inputs[0]->strides();
  int64_t start = 0;
  for (size_t i = 0; i < strides.size(); ++i) {
    start += op.getStarts()[i] * strides[i];
    strides[i] *= op.getSteps()[i];
  }
  T *out = outputs[0].data.data();
  forEach(
      outputs[0].shape, {strides},
      [&](const int64_t *from) { *out++ = inputs[0]->data[from[0]]; }, {start});
}
LLMC_EVALUATE(SliceOp)
LogicalResult SliceOp::differentiate(OpBuilder &builder, ArrayRef<Value> cotangents,
                                     SmallVectorImpl<Value> &gradients) {
  gradients.assign(1, Value());
  if (!cotangents[0])
    return success();
  SmallVector<int64_t> high, interior;
  for (auto [i, size] : llvm::enumerate(shapeOf(getResult()))) {
    int64_t step = getSteps()[i], covered = size == 0 ? 0 : (size - 1) * step + 1;
    interior.push_back(step - 1);
    high.push_back(shapeOf(getOperand())[i] - getStarts()[i] - covered);
  }
  gradients[0] = PadOp::create(builder, getLoc(), getOperand().getType(), cotangents[0],
                               getStarts(), high, interior);
  return success();
}
EmitClass SliceOp::getEmitClass() { return EmitClass::Movement; }

//===-- pad -----------------------------------------------------------------===//

LogicalResult PadOp::verify() {
  ArrayRef<int64_t> shape = shapeOf(getOperand());
  if (failed(verifyCount(*this, "low", getLow().size(), shape.size())) ||
      failed(verifyCount(*this, "high", getHigh().size(), shape.size())) ||
      failed(verifyCount(*this, "interior", getInterior().size(), shape.size())))
    return failure();
  SmallVector<int64_t> expected;
  for (size_t i = 0; i < shape.size(); ++i) {
    int64_t low = getLow()[i], high = getHigh()[i], interior = getInterior()[i];
    if (low < 0 || high < 0 || interior < 0)
      return emitOpError("C2: dimension ") << i << " has low " << low << ", high " << high
                                           << " and interior " << interior
                                           << ", expected none below 0; slice to drop elements";
    expected.push_back(low + high + shape[i] + std::max<int64_t>(shape[i] - 1, 0) * interior);
  }
  if (failed(verifyResultShape(*this, "C3", expected)))
    return failure();
  return verifySameElement(*this, "C4");
}
ShardingRule PadOp::getShardingRule() {
  return keptDims(*this, [&](size_t i) {
    return getLow()[i] == 0 && getHigh()[i] == 0 && getInterior()[i] == 0;
  });
}
template <typename T>
static void meaning(PadOp op, Inputs<T> inputs, Outputs<T> outputs) {
  Strides strides = outputs[0].strides();
  int64_t start = 0;
  for (size_t i = 0; i < strides.size(); ++i) {
    start += op.getLow()[i] * strides[i];
    strides[i] *= op.getInterior()[i] + 1;
  }
  const T *in = inputs[0]->data.data();
  forEach(
      inputs[0]->shape, {strides},
      [&](const int64_t *to) { outputs[0].data[to[0]] = *in++; }, {start});
}
LLMC_EVALUATE(PadOp)
LogicalResult PadOp::differentiate(OpBuilder &builder, ArrayRef<Value> cotangents,
                                   SmallVectorImpl<Value> &gradients) {
  gradients.assign(1, Value());
  if (!cotangents[0])
    return success();
  SmallVector<int64_t> limits, steps;
  for (auto [i, size] : llvm::enumerate(shapeOf(getResult()))) {
    limits.push_back(size - getHigh()[i]);
    steps.push_back(getInterior()[i] + 1);
  }
  gradients[0] = SliceOp::create(builder, getLoc(), getOperand().getType(), cotangents[0],
                                 getLow(), limits, steps);
  return success();
}
EmitClass PadOp::getEmitClass() { return EmitClass::Movement; }

//===-- concat --------------------------------------------------------------===//

LogicalResult ConcatOp::verify() {
  if (getInputs().empty())
    return emitOpError("C1: there are no operands, expected at least one");
  SmallVector<int64_t> expected(shapeOf(getInputs()[0]));
  int64_t dim = getDim();
  if (dim < 0 || dim >= static_cast<int64_t>(expected.size()))
    return emitOpError("C2: dim is ") << dim << ", expected less than the rank "
                                      << expected.size();
  for (auto [i, input] : llvm::enumerate(getInputs().drop_front())) {
    SmallVector<int64_t> shape(shapeOf(input));
    if (shape.size() == expected.size()) {
      expected[dim] += shape[dim];
      shape[dim] = expected[dim];
    }
    if (shape != expected)
      return emitOpError("C3: operand ") << i + 1 << " has shape " << shapeText(shapeOf(input))
                                         << ", which differs from operand 0's outside dimension "
                                         << dim;
  }
  if (failed(verifyResultShape(*this, "C4", expected)))
    return failure();
  return verifySameElement(*this, "C5");
}
ShardingRule ConcatOp::getShardingRule() {
  return keptDims(*this, [&](size_t i) { return i != getDim(); });
}
template <typename T>
static void meaning(ConcatOp op, Inputs<T> inputs, Outputs<T> outputs) {
  Strides strides = outputs[0].strides();
  int64_t start = 0;
  for (const TensorOf<T> *input : inputs) {
    const T *in = input->data.data();
    forEach(
        input->shape, {strides}, [&](const int64_t *to) { outputs[0].data[to[0]] = *in++; },
        {start});
    start += input->shape[op.getDim()] * strides[op.getDim()];
  }
}
LLMC_EVALUATE(ConcatOp)
LogicalResult ConcatOp::differentiate(OpBuilder &builder, ArrayRef<Value> cotangents,
                                      SmallVectorImpl<Value> &gradients) {
  gradients.assign((*this)->getNumOperands(), Value());
  if (!cotangents[0])
    return success();
  Build b(builder, getLoc());
  int64_t start = 0;
  for (auto [i, input] : llvm::enumerate(getInputs())) {
    int64_t size = shapeOf(input)[getDim()];
    gradients[i] = b.slice(cotangents[0], getDim(), start, start + size);
    start += size;
  }
  return success();
}
EmitClass ConcatOp::getEmitClass() { return EmitClass::Movement; }
