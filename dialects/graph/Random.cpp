// Implements dropout.
#include "dialects/graph/Detail.h"
#include "lib/support/Dropout.h"

using namespace mlir;
using namespace llmc::graph;

LogicalResult DropoutOp::verify() {
  if (getX().getType() != getResult().getType())
    return emitOpError("C1: result type is ") << getResult().getType() << ", expected "
                                              << getX().getType() << ", that of x";
  ArrayRef<int64_t> shape = shapeOf(getX());
  for (auto [i, operand] : llvm::enumerate(llvm::drop_begin((*this)->getOperands())))
    if (broadcastShapes(shapeOf(operand), shape) != SmallVector<int64_t>(shape))
      return emitOpError("C1: operand ") << i + 1 << " of shape " << shapeText(shapeOf(operand))
                                         << " does not broadcast to " << shapeText(shape)
                                         << ", the shape of x";
  double rate = getRate().convertToDouble();
  if (!(rate >= 0 && rate < 1))
    return emitOpError("C2: rate is ") << rate << ", expected 0 or more and less than 1";
  int64_t place = getPlace();
  if (place < 0 || place > std::numeric_limits<uint32_t>::max())
    return emitOpError("C3: place is ") << place << ", expected 0 or more and less than 2^32";
  return success();
}
ShardingRule DropoutOp::getShardingRule() { return elementwiseRule(*this, {{0}}); }

template <typename T>
static void meaning(DropoutOp op, Inputs<T> inputs, Outputs<T> outputs) {
  std::vector<Strides> strides;
  for (const TensorOf<T> *input : inputs)
    strides.push_back(broadcastStrides(input->shape, outputs[0].shape));
  double rate = op.getRate().convertToDouble();
  uint32_t threshold = llmc::support::dropoutThreshold(rate);
  auto place = static_cast<uint32_t>(op.getPlace());
  T *out = outputs[0].data.data(), scale = T(1) / T(1 - rate);
  forEach(outputs[0].shape, strides, [&](const int64_t *at) {
    auto number = [&](size_t i) { return toInt64(valueOf(inputs[i]->data[at[i]])); };
    T x = inputs[0]->data[at[0]];
    int64_t key = number(1);
    uint32_t word = llmc::support::dropoutWord(
        key, {uint32_t(number(2)), place, uint32_t(number(3)), uint32_t(number(4))});
    *out++ = key < 0 ? x : word < threshold ? T(0) : x * scale;
  });
}
LLMC_EVALUATE(DropoutOp)
LogicalResult DropoutOp::differentiate(OpBuilder &builder, ArrayRef<Value> cotangents,
                                       SmallVectorImpl<Value> &gradients) {
  gradients.assign((*this)->getNumOperands(), Value());
  if (cotangents[0])
    gradients[0] = DropoutOp::create(builder, getLoc(), cotangents[0].getType(), cotangents[0], getKey(),
                                     getLayer(), getPosition(), getElement(), getRateAttr(), getPlaceAttr());
  return success();
}
